
-- Debits and refunds: units that were used already are charged whether or not there is room, and units that were held
-- and not used are given back as far as they still count.

-- A counter after n more: remembered for what they are, up to the largest exact number.
local function count_debit(count, n) return min(count + n, EXACT - 1) end

function gcra.debit(p, s, n) add(p, s, bearable(p, s, n)) end
leaky.debit = leaky.charge
function fixed.debit(_, s, n) s.count = count_debit(s.count, n) end
function sliding.debit(_, s, n) s.current = count_debit(s.current, n) end
function quota.debit(p, s, n) s.spent = count_debit(max(s.spent, p.lost), n) end
-- However often: older entries become one, which counts for as long as the later of them.
function rolling.debit(p, s, n)
  n = min(n, EXACT - 1 - s.total)
  if n > 0 then push(p, s, n) end
  if p.buckets > 0 then return end
  local surplus = #s.log / 14 - max(1024, 2 * p.limit)
  if surplus <= 0 then return end
  local joined, at, size = 0, nil, nil
  for from = 1, 14 * surplus + 1, 14 do
    at, size = entry(s.log, from)
    joined = joined + size
  end
  s.log = struct.pack('>I7I7', at, joined) .. string.sub(s.log, 14 * (surplus + 1) + 1)
end
-- A debit is no event, and no outcome.
function even.debit() end
function interval.debit() end
function breaker.debit() end

gcra.give_back = gcra.refund
leaky.give_back = leaky.refund
function fixed.give_back(p, s, n, _, last)
  if s.closes <= last then fixed.refund(p, s, n) end
end
function sliding.give_back(p, s, n, at)
  if at + p.per >= s.closes then
    s.current = max(0, s.current - n)
  elseif at + 2 * p.per >= s.closes then
    s.previous = max(0, s.previous - n)
  end
end
function quota.give_back(p, s, n, at)
  if s.closes <= at - fmod(at, p.per) + p.per then quota.refund(p, s, n) end
end
-- Takes units out of the entry at a place of the log.
local function take_out(s, from, n)
  local at, size = entry(s.log, from)
  local cut = min(n, size)
  local rest = cut < size and struct.pack('>I7I7', at, size - cut) or ''
  s.log = string.sub(s.log, 1, from - 1) .. rest .. string.sub(s.log, from + 14)
  s.total = s.total - cut
end
-- Its own entry is edited, and no other.
function rolling.give_back(p, s, n, at)
  local wanted = stamp(p, at)
  for from = #s.log - 13, 1, -14 do
    local there = stamp(p, (entry(s.log, from)))
    if there == wanted then take_out(s, from, n) end
    if there <= wanted then return end
  end
end
-- Its lease is found by its end.
function concurrency.give_back(_, s, n, ends)
  for from = 1, #s.log, 14 do
    if entry(s.log, from) == ends then return take_out(s, from, n) end
  end
end
function concurrency.debit() end
-- The event took place.
function even.give_back() end
function interval.give_back() end
function breaker.give_back() end
