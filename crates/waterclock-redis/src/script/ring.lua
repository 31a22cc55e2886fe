
-- A log in a record: pairs of numbers, 14 bytes each, in a ring of `cap` places behind the fixed part of the
-- record. One pair is read or written at a time, so that a decision costs the same however long the log is.
-- The last pair is kept here, as `at` and `last`, and written when the record is saved; the first is read once.

local function new_ring(charge, cap)
  local s = {
    charge = charge, offset = charge.rings, cap = cap, total = 0, count = 0, head = 0,
    at = false, last = 0, front = false, front_second = 0, dirty = false,
  }
  charge.rings = charge.rings + 14 * cap
  charge.logs[#charge.logs + 1] = s
  return s
end
local function place(s, i) return s.offset + 14 * fmod(s.head + i, s.cap) end
local function bytes(charge, from, upto)
  if charge.body then return sub(charge.body, from + 1, upto + 1) end
  return call('GETRANGE', charge.key, from, upto)
end
local function put_bytes(charge, from, packed)
  local body = charge.body
  if not body then return call('SETRANGE', charge.key, from, packed) end
  local before = sub(body, 1, from)
  charge.body = before .. string.rep('\0', from - #before) .. packed .. sub(body, from + #packed + 1)
end
-- The pair at a place in the log, from 0.
local function entry(s, i)
  if i == s.count - 1 and s.at then return s.at, s.last end
  if i == 0 and s.front then return s.front, s.front_second end
  local from = place(s, i)
  local at, second = unpack_at('>I7I7', bytes(s.charge, from, from + 13))
  if i == 0 then s.front, s.front_second = at, second end
  return at, second
end
local function set_last(s, at, last)
  if s.count == 1 then s.front = nil end
  s.at, s.last, s.dirty = at, last, true
end
local function load_last(s)
  s.at, s.dirty = nil, false
  if s.count > 0 then s.at, s.last = entry(s, s.count - 1) else s.head = 0 end
end
local function flush(s)
  if s.dirty then
    put_bytes(s.charge, place(s, s.count - 1), pack('>I7I7', s.at, s.last))
    s.dirty = false
  end
end
local function set_entry(s, i, at, second)
  s.front = nil
  if i == s.count - 1 then return set_last(s, at, second) end
  put_bytes(s.charge, place(s, i), pack('>I7I7', at, second))
end
-- The first pair of which the test is true, or the end; it stays true from there on.
local function first(s, test)
  if s.count == 0 or test(entry(s, 0)) then return 0 end
  local low, step = 0, 1
  while low + step < s.count and not test(entry(s, low + step)) do low, step = low + step, step * 2 end
  local high = min(low + step, s.count)
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if test(entry(s, middle)) then high = middle else low = middle end
  end
  return high
end
-- The pairs from one place up to another, or to the end, as bytes.
local function slice(s, from, upto)
  upto = upto or s.count
  if from >= upto then return '' end
  flush(s)
  local start, stop = place(s, from), place(s, upto - 1)
  if start <= stop then return bytes(s.charge, start, stop + 13) end
  return bytes(s.charge, start, s.offset + 14 * s.cap - 1) .. bytes(s.charge, s.offset, stop + 13)
end
local function write_slice(s, from, packed)
  if packed == '' then return end
  s.front = nil
  local start = place(s, from)
  local fits = s.offset + 14 * s.cap - start
  put_bytes(s.charge, start, sub(packed, 1, fits))
  if #packed > fits then put_bytes(s.charge, s.offset, sub(packed, fits + 1)) end
end
-- Visits the pairs in order until told to stop.
local function walk(s, visit)
  local i, n = 0, 1
  while i < s.count do
    n = min(n, s.count - i, s.cap - fmod(s.head + i, s.cap))
    local from = place(s, i)
    local packed = bytes(s.charge, from, from + 14 * n - 1)
    for k = 0, n - 1 do
      local at, second = unpack_at('>I7I7', packed, 14 * k + 1)
      if i + k == s.count - 1 and s.dirty then at, second = s.at, s.last end
      if visit(i + k, at, second) then return end
    end
    i, n = i + n, min(4 * n, 64)
  end
end
local function drop(s, n)
  if n > 0 then s.front = nil end
  s.head, s.count = s.cap > 0 and fmod(s.head + n, s.cap) or 0, s.count - n
  if s.count == 0 then s.head, s.at, s.dirty = 0, nil, false end
end
-- Rewrites the record around a ring of another size; `packed` is what stays.
local function resize(s, cap, packed)
  local charge = s.charge
  packed = packed or slice(s, 0)
  local whole = charge.body or call('GET', charge.key) or ''
  local before, after = sub(whole, 1, s.offset), sub(whole, s.offset + 14 * s.cap + 1)
  before = before .. string.rep('\0', s.offset - #before)
  local grown, is_later = 14 * (cap - s.cap), false
  for _, other in ipairs(charge.logs) do
    if is_later then other.offset = other.offset + grown end
    is_later = is_later or other == s
  end
  if charge.logs[#charge.logs] ~= s then packed = packed .. string.rep('\0', 14 * cap - #packed) end
  charge.body, s.head, s.cap = before .. packed .. after, 0, cap
end
local function append(s, at, second)
  if s.count == s.cap then
    resize(s, max(4, 2 * s.cap))
  elseif s.cap >= 64 and 8 * s.count < s.cap then
    resize(s, s.cap / 4)
  else
    flush(s)
  end
  s.count = s.count + 1
  set_last(s, at, second)
end
-- What of a log decides: pairs at which so many units have been passed, and the last.
local function points(wanted, total)
  table.sort(wanted)
  local kept = {}
  for _, k in ipairs(wanted) do
    if k > (kept[#kept] or 0) and k <= total then kept[#kept + 1] = k end
  end
  return kept
end
-- How many of the oldest units have to go before a cost fits, before and after it is charged.
local function overs(limit, total, cost, charged)
  local wanted, cut = {1}, 0
  if charged > 0 then cut = max(0, min(charged, 2 * limit) - (max(total, 2 * limit) - total)) end
  local after = total - cut + min(charged, 2 * limit)
  for _, k in ipairs({total + cost - limit, total + 1 - limit}) do wanted[#wanted + 1] = k end
  for _, k in ipairs({1, after + cost - limit, after + 1 - limit}) do wanted[#wanted + 1] = cut + k end
  return points(wanted, total)
end
