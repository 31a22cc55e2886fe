
-- sliding-window: the end of the current window, the previous count and the current one.
local sliding = {}
algorithms.s = sliding
function sliding.numbers(spec, from)
  local limit, per
  limit, per, from = unpack_at('>I7I7', spec, from)
  return {limit = limit, per = per}, from
end
function sliding.read(_, found, from)
  if not found then return {closes = 0, previous = 0, current = 0}, from end
  local closes, previous, current
  closes, previous, current, from = unpack_at('>I7I7I7', found, from)
  return {closes = closes, previous = previous, current = current}, from
end
function sliding.write(_, s) return pack('>I7I7I7', s.closes, s.previous, s.current) end
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
-- later
function sliding.debit(_, s, n) s.current = count_debit(s.current, n) end
function sliding.give_back(p, s, n, at)
  if at + p.per >= s.closes then
    s.current = max(0, s.current - n)
  elseif at + 2 * p.per >= s.closes then
    s.previous = max(0, s.previous - n)
  end
end
function sliding.mark(_, s, n) return n, s.closes, 0 end
function sliding.undo(p, s, n, _, closes)
  if s.closes == closes then
    s.current = max(0, s.current - n)
  elseif s.closes - p.per == closes then
    s.previous = max(0, s.previous - n)
  end
end
