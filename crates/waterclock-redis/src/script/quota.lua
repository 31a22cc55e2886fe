
-- quota: the end of the window and what is spent in it, used or lost.
local quota = {}
algorithms.q = quota
function quota.numbers(spec, from)
  local limit, per
  limit, per, from = unpack_at('>I7I7', spec, from)
  local into = fmod(now, per)
  local lost = muldiv(limit, into, per)
  return {limit = limit, per = per, into = into, lost = lost}, from
end
function quota.read(_, found, from)
  if not found then return {closes = 0, spent = 0}, from end
  local closes, spent
  closes, spent, from = unpack_at('>I7I7', found, from)
  return {closes = closes, spent = spent}, from
end
function quota.write(_, s) return pack('>I7I7', s.closes, s.spent) end
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
-- later
function quota.debit(p, s, n) s.spent = count_debit(max(s.spent, p.lost), n) end
function quota.give_back(p, s, n, at)
  if s.closes <= at - fmod(at, p.per) + p.per then quota.refund(p, s, n) end
end
function quota.mark(_, s, n) return n, s.closes, s.spent end
-- What was lost since would have been lost without the charge, too.
function quota.undo(p, s, n, _, closes, spent)
  if s.closes ~= closes then return end
  local left = min(n, max(0, spent - p.lost))
  quota.refund(p, s, left)
  -- A charge behind it has fewer units before it.
  return function(closes_behind, spent_behind)
    local is_behind = closes_behind == closes and spent_behind > spent
    return closes_behind, is_behind and spent_behind - left or spent_behind
  end
end
