
-- gcra: a unit returns every step/den; the state is the instant at which the key is full.
local YEAR = 31557600000000
local gcra = {}
algorithms.g = gcra
function gcra.numbers(spec, from)
  local step, den, depth, depth_part, flags
  step, den, depth, depth_part, flags, from = unpack_at('>I7I7I7I7B', spec, from)
  local p = {
    step = step, den = den, depth = depth, depth_part = depth_part, overdraft = flags % 2 == 1, shared = flags % 4 >= 2,
  }
  return p, from
end
function gcra.read(p, found, from)
  local s = {full = 0, part = 0, at = false, charged = 0}
  if not found then return s, from end
  if not p.shared then
    -- Any debt may be real, so a step back shows by when it was written.
    if p.den > 1 then
      s.full, s.part, s.at, from = unpack_at('>I7I7I7', found, from)
    else
      s.full, s.at, from = unpack_at('>I7I7', found, from)
    end
    return s, from
  end
  -- Written by policies of any numbers: the part is rounded up to this one's.
  local den
  s.full, s.part, den, s.at, from = unpack_at('>I7I7I7I7', found, from)
  if s.part > 0 and s.part >= den then error(NOT_OURS) end
  if den ~= p.den and s.part > 0 then
    s.part = muldiv_up(p.den, s.part, den)
    if s.part == p.den then s.full, s.part = s.full + 1, 0 end
  end
  return s, from
end
function gcra.write(p, s)
  if p.shared then return pack('>I7I7I7I7', s.full, s.part, p.den, now) end
  if p.den > 1 then return pack('>I7I7I7', s.full, s.part, now) end
  return pack('>I7I7', s.full, now)
end
-- A policy of one such limit keeps one decimal number; behind it stands the instant of its last write if it
-- owes more than a full bucket.
function gcra.read_plain(full, at) return {full = tonumber(full) or 0, part = 0, at = tonumber(at)} end
function gcra.write_plain(p, s, by)
  local record = string.format('%.0f%s', s.full, by)
  return s.full > now + p.depth and string.format('%s %.0f', record, now) or record
end
function gcra.arrive(p, s)
  local redated = false
  if s.at then
    if s.at > now then s.full, redated = max(0, s.full - (s.at - now)), true end
  elseif s.full > now + p.depth then
    s.full, redated = now + p.depth, true
  end
  if s.full < now then s.full, s.part = now, 0 end
  return redated
end
-- How many whole units fit a time.
local function units(p, whole, part)
  local over = fmod(whole, p.step)
  -- Whole microseconds, as most are.
  if p.den == 1 then return (whole - over) / p.step end
  local n, rest = muldiv(p.den, over, p.step)
  local tail = fmod(part, p.step)
  n = n + (whole - over) / p.step * p.den + (part - tail) / p.step
  return rest >= p.step - tail and n + 1 or n
end
-- How many fit between the debt and a depth.
local function units_below(p, s, depth, depth_part)
  local whole, part = depth - (s.full - now), depth_part - s.part
  if part < 0 then whole, part = whole - 1, part + p.den end
  return whole < 0 and 0 or units(p, whole, part)
end
-- The time n units take.
local function span(p, n)
  if p.den == 1 then return n * p.step, 0 end
  local over = fmod(p.step, p.den)
  local quotient, rest = muldiv(n, over, p.den)
  return n * ((p.step - over) / p.den) + quotient, rest
end
local function used(p, s)
  local n = units(p, s.full - now, s.part)
  local whole, part = span(p, n)
  return (whole < s.full - now or part < s.part) and n + 1 or n
end
function gcra.room(p, s) return units_below(p, s, p.depth, p.depth_part) end
-- As many of these units as the deepest debt leaves room for: 100 years with overdraft, else 40, unless
-- the bucket itself is deeper.
local function bearable(p, s, n)
  local depth, part = p.overdraft and 100 * YEAR or 40 * YEAR, 0
  if p.depth >= depth then depth, part = p.depth, p.depth_part end
  return max(0, min(n, units_below(p, s, depth, part), EXACT - 1 - used(p, s)))
end
local function add(p, s, n)
  local whole, part = span(p, n)
  s.full = s.full + whole
  if s.part >= p.den - part then
    s.full, s.part = s.full + 1, s.part - (p.den - part)
  else
    s.part = s.part + part
  end
end
function gcra.charge(p, s, n)
  if p.overdraft then n = bearable(p, s, n) end
  add(p, s, n)
  s.charged = n
end
-- Takes time off the debt, and no more than there is.
local function lighten(p, s, whole, part)
  s.full, s.part = s.full - whole, s.part - part
  if s.part < 0 then s.full, s.part = s.full - 1, s.part + p.den end
  if s.full < now then s.full, s.part = now, 0 end
end
function gcra.refund(p, s, n)
  if n >= used(p, s) then
    s.full, s.part = now, 0
  else
    lighten(p, s, span(p, n))
  end
end
function gcra.reset(_, s) return s.full - now + (s.part > 0 and 1 or 0) end
-- later
function gcra.debit(p, s, n) add(p, s, bearable(p, s, n)) end
gcra.give_back = gcra.refund
-- Units drain in the order in which they came: of a charge, what ends after now is left.
function gcra.mark(_, s) return s.charged or 0, s.full, s.part end
function gcra.undo(p, s, n, _, full, part)
  if full < now then return end
  local whole, rest = span(p, n)
  if full - now < whole or (full - now == whole and part < rest) then whole, rest = full - now, part end
  lighten(p, s, whole, rest)
  -- A charge behind it ends earlier by that.
  return function(behind, behind_part)
    if behind < full or behind == full and behind_part <= part then return behind, behind_part end
    behind, behind_part = behind - whole, behind_part - rest
    if behind_part < 0 then behind, behind_part = behind - 1, behind_part + p.den end
    return behind, behind_part
  end
end
