
-- rolling-window: a log of instants, each with the sum of all units up to it, modulo 2^53; `base` is the sum
-- before the first. So any stretch of it is summed, found and dropped without being read.
local rolling = {}
algorithms.r = rolling
function rolling.numbers(spec, from)
  local limit, per, buckets
  limit, per, buckets, from = unpack_at('>I7I7I7', spec, from)
  return {limit = limit, per = per, buckets = buckets}, from
end
function rolling.read(_, found, from, charge)
  local base, count, head, cap = 0, 0, 0, 0
  if found then base, count, head, cap, from = unpack_at('>I7I4I4I4', found, from) end
  local s = new_ring(charge, cap)
  s.base, s.count, s.head, s.total = base, count, head, 0
  load_last(s)
  return s, from
end
function rolling.write(_, s) return pack('>I7I4I4I4', s.base, s.count, s.head, s.cap) end
local function since(sum, base) return sum < base and sum - base + EXACT or sum - base end
local function plus(sum, n) return sum >= EXACT - n and sum - (EXACT - n) or sum + n end
-- The instant an event is logged with: the end of its cell on the grid, if there is one.
local function stamp(p, at)
  if p.buckets == 0 then return at end
  local into = fmod(at, p.per)
  local cell = muldiv(p.buckets, into, p.per)
  return at - into + muldiv_up(p.per, cell + 1, p.buckets)
end
local function push(p, s, n)
  s.total = s.total + n
  if s.count > 0 and stamp(p, s.at) >= stamp(p, now) then
    set_last(s, s.at, plus(s.last, n))
  else
    append(s, now, plus(s.count > 0 and s.last or s.base, n))
  end
end
-- Drops what comes before a place in the log.
local function drop_before(s, i)
  if i == 0 then return end
  local _, sum = entry(s, i - 1)
  s.base = sum
  drop(s, i)
end
function rolling.arrive(p, s)
  if s.count == 0 then return false end
  if now - stamp(p, s.at) >= p.per then
    s.base = s.last
    drop(s, s.count)
    return false
  end
  drop_before(s, first(s, function(at) return now - stamp(p, at) < p.per end))
  s.total = since(s.last, s.base)
  local latest = stamp(p, now)
  if stamp(p, s.at) <= latest then return false end
  -- The clock stepped back: what comes after now is one entry, of now.
  local i, sum = first(s, function(at) return stamp(p, at) > latest end), s.last
  s.count, s.at = i, nil
  if i > 0 then s.at, s.last = entry(s, i - 1) end
  if i > 0 and stamp(p, s.at) >= latest then
    set_last(s, s.at, sum)
  else
    s.count = i + 1
    set_last(s, now, sum)
  end
  return true
end
function rolling.room(p, s) return max(0, p.limit - s.total) end
-- Only the newest units can still matter. The oldest go first: a sum of both might not be exact.
function rolling.charge(p, s, n)
  n = min(n, 2 * p.limit)
  local surplus = n - (max(s.total, 2 * p.limit) - s.total)
  if surplus > 0 then
    local i, base = first(s, function(_, sum) return since(sum, s.base) > surplus end), s.base
    drop(s, i)
    s.base, s.total = plus(base, surplus), s.total - surplus
  end
  push(p, s, n)
end
function rolling.refund(_, s, n)
  n = min(n, s.total)
  if n == 0 then return end
  s.total = s.total - n
  if s.total == 0 then
    s.base = s.last
    return drop(s, s.count)
  end
  local i = first(s, function(_, sum) return since(sum, s.base) >= s.total end)
  local at = entry(s, i)
  s.count = i + 1
  set_last(s, at, plus(s.base, s.total))
end
function rolling.reset(p, s)
  return s.count == 0 and 0 or p.per - (now - stamp(p, s.at))
end
function rolling.tell(p, s, cost, charged)
  local told, before, last = {}, 0, -1
  for _, k in ipairs(overs(p.limit, s.total, cost, charged)) do
    local i = first(s, function(_, sum) return since(sum, s.base) >= k end)
    if i > last then
      local at, sum = entry(s, i)
      told[#told + 1] = pack('>I7I7', at, since(sum, s.base) - before)
      before, last = since(sum, s.base), i
    end
  end
  if before < s.total then told[#told + 1] = pack('>I7I7', s.at, s.total - before) end
  return pack('>I7', #told) .. table.concat(told)
end
-- later
-- However often: older entries become one, which counts for as long as the later of them.
function rolling.debit(p, s, n)
  n = min(n, EXACT - 1 - s.total)
  if n > 0 then push(p, s, n) end
  local surplus = s.count - max(1024, 2 * p.limit)
  if p.buckets == 0 and surplus > 0 then drop(s, surplus) end
end
-- Changes the sums of a stretch of the log, and moves it by a place, or none.
local function change_sums(s, from, upto, change, n, by)
  local packed, changed = slice(s, from, upto), {}
  for k = 1, #packed, 14 do
    local at, sum = unpack_at('>I7I7', packed, k)
    changed[#changed + 1] = pack('>I7I7', at, change(sum, n))
  end
  write_slice(s, from + by, table.concat(changed))
end
-- Its own entry is edited, and no other; one of nothing is taken out. All sums on one side of it change: those of the
-- shorter side.
function rolling.give_back(p, s, n, at)
  local wanted = stamp(p, at)
  local i = first(s, function(there) return stamp(p, there) >= wanted end)
  if i == s.count then return end
  local there, sum = entry(s, i)
  local _, before = 0, s.base
  if i > 0 then _, before = entry(s, i - 1) end
  local size = since(sum, before)
  local cut = min(n, size)
  if stamp(p, there) ~= wanted or cut == 0 then return end
  s.total = s.total - cut
  if s.total == 0 then
    s.base = s.last
    return drop(s, s.count)
  end
  local gone = cut == size and 1 or 0
  if i < s.count - i then
    change_sums(s, 0, i, plus, cut, gone)
    s.base = plus(s.base, cut)
    return drop(s, gone)
  end
  change_sums(s, i + gone, s.count, since, cut, -gone)
  s.count = s.count - gone
  load_last(s)
end
function rolling.mark(_, _, n) return n, 0, 0 end
rolling.undo = rolling.give_back
