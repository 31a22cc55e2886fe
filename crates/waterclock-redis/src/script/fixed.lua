
-- fixed-window: the end of the window and the units counted in it.
local fixed = {}
algorithms.f = fixed
function fixed.numbers(spec, from)
  local limit, align, per
  limit, align, per, from = unpack_at('>I7c1I7', spec, from)
  local p = {limit = limit, closes = false}
  if align == 'f' then
    p.closes = now + per
  elseif align == 'e' then
    p.closes = window_end(per)
  else
    -- A calendar: the edges around the instant the caller expects this to be.
    local edges = text()
    local before, at = unpack_at('>I7', edges)
    while at <= #edges and not p.closes do
      local edge
      edge, at = unpack_at('>I7', edges, at)
      if before <= now and now < edge then p.closes = edge end
    end
  end
  return p, from
end
function fixed.read(_, found, from)
  if not found then return {closes = 0, count = 0}, from end
  local closes, count
  closes, count, from = unpack_at('>I7I7', found, from)
  return {closes = closes, count = count}, from
end
function fixed.write(_, s) return pack('>I7I7', s.closes, s.count) end
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
-- later
function fixed.debit(_, s, n) s.count = count_debit(s.count, n) end
function fixed.give_back(p, s, n, _, last)
  if s.closes <= last then fixed.refund(p, s, n) end
end
function fixed.mark(_, s, n) return n, s.closes, 0 end
function fixed.undo(p, s, n, _, closes)
  if s.closes == closes then fixed.refund(p, s, n) end
end
