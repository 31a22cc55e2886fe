
-- concurrency: a log of (end of the lease, size), packed; 14 bytes each, soonest end first.
local concurrency = {}
algorithms.c = concurrency
function concurrency.numbers()
  local p = {limit = number(), lease = number()}
  p.ends = held_until and min(held_until, now + p.lease) or 0
  return p
end
concurrency.read, concurrency.write = rolling.read, rolling.write
function concurrency.arrive(p, s)
  local from = 1
  while from < #s.log do
    local ends, size = entry(s.log, from)
    if now < ends then break end
    s.total, from = s.total - size, from + 14
  end
  if from > 1 then s.log = string.sub(s.log, from) end
  local latest, moved, upto, late = now + p.lease, 0, #s.log, false
  while upto > 0 do
    local ends, size = entry(s.log, upto - 13)
    if ends < latest then break end
    moved, upto, late = moved + size, upto - 14, late or ends > latest
  end
  if not late then return false end
  s.log = string.sub(s.log, 1, upto) .. struct.pack('>I7I7', latest, moved)
  return true
end
function concurrency.room(p, s) return max(0, p.limit - s.total) end
-- A check takes nothing, because it could never give it back.
function concurrency.charge(p, s, n)
  if not held_until then return end
  local from, size = #s.log - 13, 0
  while from > 0 do
    local ends
    ends, size = entry(s.log, from)
    if ends == p.ends then break end
    size = 0
    if ends < p.ends then from = from + 14 break end
    from = from - 14
  end
  if from < 1 then from = 1 end
  local rest = string.sub(s.log, size > 0 and from + 14 or from)
  s.log = string.sub(s.log, 1, from - 1) .. struct.pack('>I7I7', p.ends, size + n) .. rest
  s.total = s.total + n
end
function concurrency.refund() end
function concurrency.reset(_, s)
  if #s.log == 0 then return 0 end
  return (entry(s.log, #s.log - 13)) - now
end
