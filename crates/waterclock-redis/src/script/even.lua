
-- even-slots: one more than the instant of the last event, 0 for none.
local even = {}
algorithms.e = even
function even.numbers(spec, from)
  local p = {}
  p.halves, p.per, from = unpack_at('>I7I7', spec, from)
  return p, from
end
function even.read(_, found, from)
  if not found then return {event = 0}, from end
  local s = {}
  s.event, from = unpack_at('>I7', found, from)
  return s, from
end
function even.write(_, s) return pack('>I7', s.event) end
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
-- later
-- A debit is no event, and one that took place is not taken back; one that did not is.
function even.debit() end
function even.give_back() end
function even.mark(_, s, n) return n, s.event, 0 end
function even.undo(_, s, _, _, event)
  if s.event == event then s.event = 0 end
end
