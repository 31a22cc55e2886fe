
-- leaky-bucket: the level as of the last drip.
local leaky = {}
algorithms.l = leaky
function leaky.numbers(spec, from)
  local capacity, drip, every, overdraft
  capacity, drip, every, overdraft, from = unpack_at('>I7I7I7I7', spec, from)
  local year = 31557600000000
  local deepest = overdraft == 1 and 100 * year or max(40 * year, math.ceil(capacity / drip) * every)
  return {capacity = capacity, drip = drip, every = every, overdraft = overdraft == 1, deepest = deepest}, from
end
function leaky.read(_, found, from)
  if not found then return {level = 0, anchor = 0}, from end
  local level, anchor
  level, anchor, from = unpack_at('>I7I7', found, from)
  return {level = level, anchor = anchor, charged = 0}, from
end
function leaky.write(_, s) return pack('>I7I7', s.level, s.anchor) end
function leaky.arrive(p, s)
  local redated = s.level > 0 and s.anchor > now
  if redated then s.anchor = now end
  local since = now - s.anchor
  local drips = (since - fmod(since, p.every)) / p.every
  s.level, s.anchor = s.level - drips * p.drip, s.anchor + drips * p.every
  if s.level <= 0 then s.level, s.anchor = 0, now end
  return redated
end
function leaky.room(p, s) return max(0, p.capacity - s.level) end
function leaky.charge(p, s, n)
  local longest = p.deepest + now - s.anchor
  local most = min((longest - fmod(longest, p.every)) / p.every * p.drip, EXACT - 1)
  local level = min(s.level + n, most)
  s.level, s.charged = level, level - s.level
end
function leaky.refund(_, s, n) s.level = max(0, s.level - n) end
function leaky.reset(p, s)
  if s.level == 0 then return 0 end
  local over = fmod(s.level, p.drip)
  local drips = (s.level - over) / p.drip + (over > 0 and 1 or 0)
  return drips * p.every - (now - s.anchor)
end
-- later
leaky.debit = leaky.charge
leaky.give_back = leaky.refund
-- Units drain in the order in which they came.
function leaky.mark(_, s) return s.charged or 0, s.level, s.anchor end
function leaky.undo(p, s, n, _, level, anchor)
  local since = max(0, now - anchor)
  local drained = (since - fmod(since, p.every)) / p.every * p.drip
  local left = min(n, max(0, level - drained))
  leaky.refund(p, s, left)
  -- A charge behind it has fewer units before it. Anchors are whole drips apart, unless all has drained in between.
  return function(level_behind, anchor_behind)
    local apart = anchor_behind - anchor
    local is_behind = level_behind + (apart - fmod(apart, p.every)) / p.every * p.drip > level
    return is_behind and max(0, level_behind - left) or level_behind, anchor_behind
  end
end
