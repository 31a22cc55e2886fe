
-- What is told afterwards: units that were used already are charged whatever there is room for, and units
-- that were held and not used are given back as far as they still count.

-- A counter after n more: remembered for what they are, up to what can be told apart.
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
-- A debit is no event.
function even.debit() end
function interval.debit() end
