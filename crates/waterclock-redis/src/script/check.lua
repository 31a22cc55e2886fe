
-- Checks over any charges of any policies, each independent of the others: judge all charges, then record in all
-- or in none. The reply has for each check the states as they were found.

-- How many units fit a limit, its gap included.
local function room(limit)
  if limit.gap and interval.room(limit.gap, limit.last) == 0 then return 0 end
  return limit.does.room(limit.numbers, limit.state)
end

-- Whether its cost fits so much room.
local function fits(limit, units) return (limit.numbers.overdraft and 1 or limit.cost) <= units end

local function charge_limit(limit)
  if limit.charged == 0 then return end
  limit.does.charge(limit.numbers, limit.state, limit.charged)
  if limit.gap then interval.charge(limit.gap, limit.last) end
end

local function judge(verb, charges)
  local refused = false
  for _, charge in ipairs(charges) do
    if verb == 'f' or verb == 'l' then charge.mode = 'n' end
    local least = charge.cost
    charge.admits = true
    for l = 1, #charge.limits do
      local limit = charge.limits[l]
      if not limit.shadow and limit.cost > 0 then
        local units = room(limit)
        if not fits(limit, units) then charge.admits = false end
        if units < least then least = units end
      end
    end
    charge.grants = (charge.admits or charge.mode == 'u') and charge.cost
      or charge.mode == 'n' and least or 0
    if not charge.admits and not charge.shadow then refused = true end
  end
  return refused
end

local function record(charge, withheld, marking)
  -- Whatever becomes of the others.
  local always = charge.shadow or charge.mode == 'u'
  if withheld and not always then charge.grants = 0 end
  -- What another member of the family wrote is moved when something is charged, and not before.
  local writes = (charge.redated and not charge.translated or charge.moves) and charge.cost > 0
  -- A refusal moves nothing to other numbers, not even for the sake of limits in shadow.
  local stays = charge.found and charge.translated and not charge.moves and charge.grants == 0
  -- Counted: `ipairs` takes longer.
  local limits = charge.limits
  for l = 1, #limits do
    local limit = limits[l]
    local n = charge.mode == 'n' and charge.grants or charge.grants > 0 and limit.cost or 0
    if limit.shadow and stays then
      n = 0
    elseif limit.shadow then
      -- A shadow limit is charged what it alone would have admitted.
      local units = room(limit)
      n = (charge.mode == 'u' or fits(limit, units)) and limit.cost
        or charge.mode == 'n' and min(limit.cost, units) or 0
    end
    limit.charged = n
    writes = writes or n > 0
  end
  local state = told(charge)
  for l = 1, #limits do charge_limit(limits[l]) end
  local notes = holding and charge.due_key and not (always and holding.how == UNDO)
  if notes then charge.is_noted = hold_due(charge) end
  if marking then
    local marks = {}
    for i, limit in ipairs(charge.limits) do
      local n, first_mark, second = 0, 0, 0
      if limit.charged > 0 then
        n, first_mark, second = limit.does.mark(limit.numbers, limit.state, limit.charged)
      end
      marks[i] = pack('>I7I7I7I7', n, first_mark, second, limit.gap and limit.last.welcome or 0)
    end
    charge.marks = pack('>c3BBI7', charge.tag, charge.is_noted and 1 or 0, #marks, now) .. table.concat(marks)
  end
  if writes or charge.tidied and not charge.translated then save(charge) end
  return state
end

-- Something is held: all of it, or of a single charge what fits.
local function is_held(verb, charges, refused)
  local only = #charges == 1 and verb == 'c' and charges[1]
  return not refused or only and only.mode == 'n' and only.grants > 0
end

-- The states before. `h` is for charges that stand only if others elsewhere do, `f` charges what fits, and `l` is
-- `f` with marks, which are what undoes a charge.
local function check(verb, charges, marking)
  if verb == 'p' then return tell_all(charges) end
  if verb == 'r' then
    for _, charge in ipairs(charges) do
      for _, limit in ipairs(charge.limits) do
        limit.does.refund(limit.numbers, limit.state, limit.cost)
      end
      if charge.found then save(charge) end
    end
    return tell_all(charges)
  end
  local refused = judge(verb, charges)
  local withheld, states = refused and (#charges > 1 or verb == 'h'), {}
  -- What a shadow limit would have admitted of a refused reservation is never settled, so it is not held either.
  if not is_held(verb, charges, refused) then held_until, holding = nil, nil end
  for i, charge in ipairs(charges) do states[i] = record(charge, withheld, marking) end
  return states
end

-- How much of a charge is held, and of each of its limits how much that is and until when it counts.
local function held_units(charge)
  local numbers = {pack('>I7I7', now, charge.shadow and charge.cost or charge.grants)}
  for i, limit in ipairs(charge.limits) do
    -- A shadow limit that said no holds nothing, whatever becomes of it.
    local units = (limit.charged > 0 or limit.cost == 0) and limit.charged or 2 * EXACT
    numbers[i + 1] = pack('>I7I7', units, limit.numbers.ends or 0)
  end
  return table.concat(numbers)
end
