
-- One check over any charges of any policies: judge them all, then record in all or in none. Replies the
-- instant and the records as they were found, from which the caller derives every number of the decision.

-- How many units fit a limit, its gap included.
local function room(limit)
  if limit.gap and interval.room(limit.gap, limit.last) == 0 then return 0 end
  return limit.does.room(limit.numbers, limit.state)
end

local function fits(limit)
  return (limit.numbers.overdraft and 1 or limit.cost) <= room(limit)
end

local function charge_limit(limit, n)
  if n == 0 then return end
  limit.does.charge(limit.numbers, limit.state, n)
  if limit.gap then interval.charge(limit.gap, limit.last) end
end

if verb == 'peek' then return reply end

if verb == 'refund' then
  for _, charge in ipairs(charges) do
    for _, limit in ipairs(charge.limits) do
      limit.does.refund(limit.numbers, limit.state, limit.cost)
    end
    if charge.found then save(charge) end
  end
  return reply
end

local refused = false
for _, charge in ipairs(charges) do
  local least = charge.cost
  charge.admits = true
  for _, limit in ipairs(charge.limits) do
    if not limit.shadow and limit.cost > 0 then
      if not fits(limit) then charge.admits = false end
      least = min(least, room(limit))
    end
  end
  charge.grants = (charge.admits or charge.mode == 'uniform') and charge.cost
    or charge.mode == 'nary' and least or 0
  if not charge.admits and not charge.shadow then refused = true end
end

for i, charge in ipairs(charges) do
  if refused and (count > 1 or verb == 'hold') and not charge.shadow and charge.mode ~= 'uniform' then charge.grants = 0 end
  -- What another member of the family wrote is moved when something is charged, and not before.
  local writes = (charge.redated and not charge.elsewhere[1] or charge.moves) and charge.cost > 0
  -- A refusal moves nothing to other numbers, not even for the sake of limits in shadow.
  local stays = charge.found and charge.elsewhere[1] and not charge.moves and charge.grants == 0
  for _, limit in ipairs(charge.limits) do
    local n = charge.mode == 'nary' and charge.grants or charge.grants > 0 and limit.cost or 0
    if limit.shadow and stays then
      n = 0
    elseif limit.shadow then
      -- A shadow limit is charged what it alone would have admitted.
      n = (charge.mode == 'uniform' or fits(limit)) and limit.cost
        or charge.mode == 'nary' and min(limit.cost, room(limit)) or 0
    end
    charge_limit(limit, n)
    limit.held = n
    writes = writes or n > 0
  end
  if writes then save(charge) end
  if verb == 'hold' then reply[i + 1] = {charge.found, charge.written or false} end
end
