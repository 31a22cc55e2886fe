
-- min-interval: the instant from which the next event is welcome. Also the gap of any other limit.
local interval = {}
algorithms.m = interval
function interval.numbers(spec, from)
  local p = {}
  p.every, from = unpack_at('>I7', spec, from)
  return p, from
end
function interval.read(_, found, from)
  if not found then return {welcome = 0}, from end
  local s = {}
  s.welcome, from = unpack_at('>I7', found, from)
  return s, from
end
function interval.write(_, s) return pack('>I7', s.welcome) end
function interval.arrive(p, s)
  local redated = s.welcome > now + p.every
  if redated then s.welcome = now + p.every end
  return redated
end
function interval.room(_, s) return now >= s.welcome and EXACT or 0 end
function interval.charge(p, s) s.welcome = now + p.every end
function interval.refund() end
function interval.reset(_, s) return s.welcome - now end
-- later
function interval.debit() end
function interval.give_back() end
function interval.mark(_, s, n) return n, s.welcome, 0 end
-- The event before this one was far enough back then, so it is now.
function interval.undo(_, s, _, at, welcome)
  if s.welcome == welcome then s.welcome = at end
end
