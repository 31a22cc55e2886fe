#!lua
-- What every script about policies starts with: what it is asked, and the algorithms that most policies use.
-- Integers only, each below 2^53; time in microseconds.

local EXACT = 9007199254740992 -- 2^53
local YEAR = 31557600000000
local NOT_OURS = 'WATERCLOCK a record that is not ours'
local fmod, min, max = math.fmod, math.min, math.max

local cursor = 0
local function text() cursor = cursor + 1 return ARGV[cursor] end
local function number() cursor = cursor + 1 return tonumber(ARGV[cursor]) end

-- Trace time where the caller passes it, and then a time to live that is only a safety net.
local now, net = number(), number()
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local verb, count = text(), number()
-- Until when what is charged is held, if it is.
local held_until

-- a·b/c for a < 2^53 and b <= c: quotient and remainder.
local function muldiv(a, b, c)
  local product = a * b
  if product < EXACT then
    local rest = fmod(product, c)
    return (product - rest) / c, rest
  end
  local quotient, rest, bit = 0, 0, EXACT / 2
  while bit >= 1 do
    quotient = quotient + quotient
    if rest >= c - rest then
      rest, quotient = rest - (c - rest), quotient + 1
    else
      rest = rest + rest
    end
    if a >= bit then
      a = a - bit
      if rest >= c - b then
        rest, quotient = rest - (c - b), quotient + 1
      else
        rest = rest + b
      end
    end
    bit = bit / 2
  end
  return quotient, rest
end

local function muldiv_up(a, b, c)
  local quotient, rest = muldiv(a, b, c)
  return rest > 0 and quotient + 1 or quotient
end

-- A counter after n more: attempts count up to twice the limit, and what was counted under a higher
-- limit stays.
local function count_up(count, n, limit) return min(count + n, max(count, 2 * limit)) end

local function window_end(per) return now - fmod(now, per) + per end

-- An algorithm: `numbers` of the limit, `read` and `write` of its state, `arrive` brings the state to
-- now (true if it had to be re-dated because the clock stepped back), `room` how many units fit,
-- `charge`, `refund`, and `reset`, the time until it is as good as fresh.
local algorithms = {}

-- gcra: a unit returns every step/den; the state is the instant at which the key is full.
local gcra = {}
algorithms.g = gcra
function gcra.numbers()
  local p = {step = number(), den = number(), depth = number(), depth_part = number()}
  local flags = number()
  p.overdraft, p.shared, p.dated = flags % 2 == 1, flags % 4 >= 2, flags >= 4
  return p
end
function gcra.read(p, take)
  local s = {full = take(), part = (p.den > 1 or p.shared) and take() or 0}
  if p.shared then
    -- Written by policies of any numbers: the part is rounded up to this one's.
    local den = take()
    if s.part > 0 and s.part >= den then error(NOT_OURS) end
    if den ~= p.den and s.part > 0 then
      s.part = muldiv_up(p.den, s.part, den)
      if s.part == p.den then s.full, s.part = s.full + 1, 0 end
    end
  end
  -- Any debt may be real, so a step back shows by when it was written. One number alone owes nothing.
  s.at = take()
  return s
end
function gcra.write(p, s, put)
  put(s.full)
  if p.den > 1 or p.shared then put(s.part) end
  if p.shared then put(p.den) end
  if p.dated or s.full > now + p.depth then put(now) end
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
function gcra.charge(p, s, n) add(p, s, p.overdraft and bearable(p, s, n) or n) end
function gcra.refund(p, s, n)
  if n >= used(p, s) then
    s.full, s.part = now, 0
    return
  end
  local whole, part = span(p, n)
  s.full, s.part = s.full - whole, s.part - part
  if s.part < 0 then s.full, s.part = s.full - 1, s.part + p.den end
end
function gcra.reset(_, s) return s.full - now + (s.part > 0 and 1 or 0) end

-- leaky-bucket: the level as of the last drip.
local leaky = {}
algorithms.l = leaky
function leaky.numbers()
  local p = {capacity = number(), drip = number(), every = number(), overdraft = number() == 1}
  p.deepest = p.overdraft and 100 * YEAR
    or max(40 * YEAR, math.ceil(p.capacity / p.drip) * p.every)
  return p
end
function leaky.read(_, take) return {level = take(), anchor = take()} end
function leaky.write(_, s, put) put(s.level) put(s.anchor) end
function leaky.arrive(p, s)
  local redated = s.level > 0 and s.anchor > now
  if redated then s.anchor = now end
  local since = now - s.anchor
  local drips = (since - fmod(since, p.every)) / p.every
  s.level, s.anchor = s.level - drips * p.drip, s.anchor + drips * p.every
  if s.level <= 0 then s.level, s.anchor = 0, now end
  return redated
end
function leaky.room(p, s) return max(0, p.capacity - s.level) end
function leaky.charge(p, s, n)
  local longest = p.deepest + now - s.anchor
  local most = min((longest - fmod(longest, p.every)) / p.every * p.drip, EXACT - 1)
  s.level = min(s.level + n, most)
end
function leaky.refund(_, s, n) s.level = max(0, s.level - n) end
function leaky.reset(p, s)
  if s.level == 0 then return 0 end
  local over = fmod(s.level, p.drip)
  local drips = (s.level - over) / p.drip + (over > 0 and 1 or 0)
  return drips * p.every - (now - s.anchor)
end

-- fixed-window: the end of the window and the units counted in it.
local fixed = {}
algorithms.f = fixed
function fixed.numbers()
  local p = {limit = number(), align = text()}
  if p.align == 'first' then
    p.closes = now + number()
  elseif p.align == 'epoch' then
    p.closes = window_end(number())
  else
    -- A calendar: the edges around the instant the caller expects this to be.
    local before = number()
    for _ = 2, tonumber(p.align) do
      local edge = number()
      if not p.closes and before <= now and now < edge then p.closes = edge end
    end
  end
  return p
end
function fixed.read(_, take) return {closes = take(), count = take()} end
function fixed.write(_, s, put) put(s.closes) put(s.count) end
function fixed.arrive(p, s)
  if now >= s.closes then s.count = 0 end
  local redated = s.count > 0 and s.closes > p.closes
  if redated or s.count == 0 then s.closes = p.closes end
  return redated
end
function fixed.room(p, s) return max(0, p.limit - s.count) end
function fixed.charge(p, s, n) s.count = count_up(s.count, n, p.limit) end
function fixed.refund(_, s, n) s.count = max(0, s.count - n) end
function fixed.reset(_, s) return s.count == 0 and 0 or s.closes - now end

-- sliding-window: the end of the current window, the previous count and the current one.
local sliding = {}
algorithms.s = sliding
function sliding.numbers() return {limit = number(), per = number()} end
function sliding.read(_, take) return {closes = take(), previous = take(), current = take()} end
function sliding.write(_, s, put) put(s.closes) put(s.previous) put(s.current) end
function sliding.arrive(p, s)
  local closes = window_end(p.per)
  local redated = s.closes > closes
  if redated then
    s.closes = closes
  elseif now - s.closes >= p.per then
    s.closes, s.previous, s.current = closes, 0, 0
  elseif now >= s.closes then
    s.closes, s.previous, s.current = closes, s.current, 0
  end
  return redated
end
function sliding.room(p, s)
  return max(0, p.limit - s.current - muldiv_up(s.previous, s.closes - now, p.per))
end
function sliding.charge(p, s, n) s.current = count_up(s.current, n, p.limit) end
function sliding.refund(_, s, n)
  s.previous = max(0, s.previous - max(0, n - s.current))
  s.current = max(0, s.current - n)
end
function sliding.reset(p, s)
  if s.current > 0 then return s.closes - now + p.per end
  return s.previous > 0 and s.closes - now or 0
end

-- rolling-window: a log of (instant, size), packed; 14 bytes each, oldest first.
local rolling = {}
algorithms.r = rolling
function rolling.numbers() return {limit = number(), per = number(), buckets = number()} end
function rolling.read(_, take, bytes)
  local total = take()
  return {total = total, log = bytes(14 * take())}
end
function rolling.write(_, s, put, raw) put(s.total) put(#s.log / 14) raw(s.log) end
local function entry(log, from) return struct.unpack('>I7I7', log, from) end
-- The instant an event is logged with: the end of its cell on the grid, if there is one.
local function stamp(p, at)
  if p.buckets == 0 then return at end
  local into = fmod(at, p.per)
  local cell = muldiv(p.buckets, into, p.per)
  return at - into + muldiv_up(p.per, cell + 1, p.buckets)
end
local function push(p, s, n)
  local from, at, size = #s.log - 13, nil, nil
  if from > 0 then at, size = entry(s.log, from) end
  if at and stamp(p, at) >= stamp(p, now) then
    s.log = string.sub(s.log, 1, from - 1) .. struct.pack('>I7I7', at, size + n)
  else
    s.log = s.log .. struct.pack('>I7I7', now, n)
  end
  s.total = s.total + n
end
function rolling.arrive(p, s)
  local from = 1
  while from < #s.log do
    local at, units = entry(s.log, from)
    if now - stamp(p, at) < p.per then break end
    s.total, from = s.total - units, from + 14
  end
  if from > 1 then s.log = string.sub(s.log, from) end
  local latest, moved, upto = stamp(p, now), 0, #s.log
  while upto > 0 do
    local at, size = entry(s.log, upto - 13)
    if stamp(p, at) <= latest then break end
    moved, upto = moved + size, upto - 14
  end
  if moved == 0 then return false end
  s.log, s.total = string.sub(s.log, 1, upto), s.total - moved
  push(p, s, moved)
  return true
end
function rolling.room(p, s) return max(0, p.limit - s.total) end
-- Only the newest units can still matter. The oldest go first: a sum of both might not be exact.
function rolling.charge(p, s, n)
  n = min(n, 2 * p.limit)
  local from, surplus = 1, n - (max(s.total, 2 * p.limit) - s.total)
  while surplus > 0 do
    local at, size = entry(s.log, from)
    local cut = min(surplus, size)
    s.total, surplus = s.total - cut, surplus - cut
    from = from + 14
    if cut < size then
      s.log = struct.pack('>I7I7', at, size - cut) .. string.sub(s.log, from)
      from = 1
    end
  end
  if from > 1 then s.log = string.sub(s.log, from) end
  push(p, s, n)
end
function rolling.refund(_, s, n)
  local upto, rest = #s.log, ''
  while n > 0 and upto > 0 do
    local at, size = entry(s.log, upto - 13)
    local cut = min(n, size)
    n, s.total, upto = n - cut, s.total - cut, upto - 14
    if cut < size then rest = struct.pack('>I7I7', at, size - cut) end
  end
  s.log = string.sub(s.log, 1, upto) .. rest
end
function rolling.reset(p, s)
  if #s.log == 0 then return 0 end
  return p.per - (now - stamp(p, (entry(s.log, #s.log - 13))))
end

-- quota: the end of the window and what is spent in it, used or lost.
local quota = {}
algorithms.q = quota
function quota.numbers()
  local p = {limit = number(), per = number()}
  p.into = fmod(now, p.per)
  p.lost = muldiv(p.limit, p.into, p.per)
  return p
end
function quota.read(_, take) return {closes = take(), spent = take()} end
function quota.write(_, s, put) put(s.closes) put(s.spent) end
function quota.arrive(p, s)
  local closes = window_end(p.per)
  local redated = s.closes > closes
  if now >= s.closes then s.spent = 0 end
  s.closes = closes
  return redated
end
function quota.room(p, s) return max(0, p.limit - max(s.spent, p.lost)) end
function quota.charge(p, s, n) s.spent = count_up(max(s.spent, p.lost), n, p.limit) end
function quota.refund(_, s, n) s.spent = max(0, s.spent - n) end
function quota.reset(p, s)
  if s.spent <= p.lost then return 0 end
  return (s.spent >= p.limit and p.per or muldiv_up(p.per, s.spent, p.limit)) - p.into
end

-- even-slots: one more than the instant of the last event, 0 for none.
local even = {}
algorithms.e = even
function even.numbers() return {halves = number(), per = number()} end
function even.read(_, take) return {event = take()} end
function even.write(_, s, put) put(s.event) end
local function half(p, at) return (muldiv(p.halves, fmod(at, p.per), p.per)) end
function even.arrive(_, s)
  local redated = s.event > now + 1
  if redated then s.event = now + 1 end
  return redated
end
-- The end of the half-slot that was taken.
local function taken_until(p, s)
  local at = s.event - 1
  return at - fmod(at, p.per) + muldiv_up(p.per, half(p, at) + 1, p.halves)
end
function even.room(p, s)
  local open = fmod(half(p, now), 2) == 0 and (s.event == 0 or now >= taken_until(p, s))
  return open and EXACT or 0
end
function even.charge(_, s) s.event = now + 1 end
function even.refund() end
function even.reset(p, s) return s.event == 0 and 0 or taken_until(p, s) - now end

-- min-interval: the instant from which the next event is welcome. Also the gap of any other limit.
local interval = {}
algorithms.m = interval
function interval.numbers() return {every = number()} end
function interval.read(_, take) return {welcome = take()} end
function interval.write(_, s, put) put(s.welcome) end
function interval.arrive(p, s)
  local redated = s.welcome > now + p.every
  if redated then s.welcome = now + p.every end
  return redated
end
function interval.room(_, s) return now >= s.welcome and EXACT or 0 end
function interval.charge(p, s) s.welcome = now + p.every end
function interval.refund() end
function interval.reset(_, s) return s.welcome - now end
