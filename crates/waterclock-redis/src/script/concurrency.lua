
-- concurrency: a log of the ends of leases, each with its size, soonest end first. What was given back stays
-- as nothing until it comes to an end of the log, or until half of the log is that.
local concurrency = {}
algorithms.c = concurrency
function concurrency.numbers(spec, from)
  local limit, lease
  limit, lease, from = unpack_at('>I7I7', spec, from)
  return {limit = limit, lease = lease, ends = held_until and min(held_until, now + lease) or 0}, from
end
function concurrency.read(_, found, from, charge)
  local total, live, count, head, cap = 0, 0, 0, 0, 0
  if found then total, live, count, head, cap, from = unpack_at('>I7I4I4I4I4', found, from) end
  local s = new_ring(charge, cap)
  s.total, s.live, s.count, s.head = total, live, count, head
  load_last(s)
  return s, from
end
function concurrency.write(_, s)
  return pack('>I7I4I4I4I4', s.total, s.live, s.count, s.head, s.cap)
end
local function drop_trailing(s)
  while s.count > 0 and s.last == 0 do
    s.count = s.count - 1
    load_last(s)
  end
end
function concurrency.arrive(p, s)
  local over = 0
  walk(s, function(_, ends, size)
    if size > 0 and now < ends then return true end
    s.total, s.live, over = s.total - size, s.live - (size > 0 and 1 or 0), over + 1
  end)
  drop(s, over)
  -- So that the next caller need not.
  if over > 16 then s.charge.tidied = true end
  local latest = now + p.lease
  if s.count == 0 or s.at <= latest then return false end
  local i, moved, live = first(s, function(ends) return ends >= latest end), 0, 0
  for j = i, s.count - 1 do
    local _, size = entry(s, j)
    moved, live = moved + size, live + (size > 0 and 1 or 0)
  end
  s.count, s.live = i + 1, s.live - live + 1
  set_last(s, latest, moved)
  return true
end
function concurrency.room(p, s) return max(0, p.limit - s.total) end
local function make_room(s)
  if s.count > 16 and 2 * s.live < s.count then
    local live = {}
    flush(s)
    walk(s, function(_, ends, size)
      if size > 0 then live[#live + 1] = pack('>I7I7', ends, size) end
    end)
    s.count = #live
    resize(s, s.cap, table.concat(live))
  elseif s.count == s.cap then
    resize(s, max(4, 2 * s.cap))
  end
end
-- A check takes nothing, because it could never give it back.
function concurrency.charge(p, s, n)
  if not held_until then return end
  make_room(s)
  local i = s.count
  if i > 0 and p.ends <= s.at then i = first(s, function(ends) return ends >= p.ends end) end
  s.total = s.total + n
  if i < s.count then
    local ends, size = entry(s, i)
    if ends == p.ends then
      if size == 0 then s.live = s.live + 1 end
      return set_entry(s, i, ends, size + n)
    end
  end
  s.live = s.live + 1
  flush(s)
  local later = slice(s, i)
  s.count = s.count + 1
  write_slice(s, i + 1, later)
  if i == s.count - 1 then
    set_last(s, p.ends, n)
  else
    set_entry(s, i, p.ends, n)
  end
end
function concurrency.refund() end
function concurrency.reset(_, s) return s.count == 0 and 0 or s.at - now end
function concurrency.tell(p, s, cost, charged)
  local held = held_until and charged or 0
  local wanted, told, sum, before, wants = overs(p.limit, s.total, cost, held), {}, 0, 0, 1
  local crossed, previous = held == 0, nil
  local function close(ends)
    if sum > before then told[#told + 1] = pack('>I7I7', ends, sum - before) end
    before = sum
  end
  walk(s, function(_, ends, size)
    if not wanted[wants] then return true end
    -- What is held now comes between these two.
    if not crossed and ends > p.ends then
      close(previous)
      crossed = true
    end
    sum, previous = sum + size, ends
    if sum >= wanted[wants] then
      close(ends)
      while wanted[wants] and wanted[wants] <= sum do wants = wants + 1 end
    end
  end)
  sum = s.total
  close(s.at)
  return pack('>I7', #told) .. table.concat(told)
end
-- later
function concurrency.debit() end
-- Its lease is found by its end.
function concurrency.give_back(_, s, n, ends)
  local i = first(s, function(there) return there >= ends end)
  if i == s.count then return end
  local there, size = entry(s, i)
  if there ~= ends or size == 0 then return end
  local cut = min(n, size)
  s.total = s.total - cut
  if cut == size then s.live = s.live - 1 end
  set_entry(s, i, there, size - cut)
  drop_trailing(s)
end
function concurrency.mark(p, _, n) return held_until and n or 0, p.ends, 0 end
function concurrency.undo(p, s, n, _, ends) concurrency.give_back(p, s, n, ends) end
