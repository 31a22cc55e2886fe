
-- A record starts with a byte and the tag of the definition by which it was written; then comes the fixed part of
-- the state of each limit, and then the logs. A policy of one plain gcra limit keeps one decimal number that ends
-- in the tag.
local HEAD = 4
local function tag_of(found)
  if string.byte(found) == 1 then return sub(found, 2, HEAD) end
  return string.match(found, '^%d+(%d%d%d)$') or string.match(found, '^%d+(%d%d%d) %d+$')
    or error(NOT_OURS)
end

-- The next key, with what is asked of it. If its record was written by another definition, which only the caller
-- can translate, that record is returned as well, unless the caller has translated it before.
local function read_charge()
  keys = keys + 1
  local charge = {key = KEYS[keys], limits = {}, logs = {}}
  local spec, ask = text(), text()
  local flags, fixed_part, known, from
  charge.mode, flags, charge.tag, fixed_part, known, from = unpack_at('>c1Bc3I2B', spec)
  charge.plain, charge.shadow, charge.rings = flags % 2 == 1, flags >= 2, fixed_part
  local hints, next_cost
  charge.cost, hints, next_cost = unpack_at('>I7B', ask)
  local found
  if fixed_part > 0 then
    found = call('GETRANGE', charge.key, 0, fixed_part - 1)
    if found == '' then found = false end
  else
    found = call('GET', charge.key)
  end
  charge.exists = found and true
  local translated, translation
  if hints >= 2 then translated, translation = text(), text() end
  local ours = found and (charge.plain and string.match(found, '^%d+(%d%d%d)') or sub(found, 2, HEAD)) == charge.tag
    and (charge.plain or string.byte(found) == 1)
  if found and not ours then
    if fixed_part > 0 then found = call('GET', charge.key) end
    tag_of(found)
    if translated ~= found then return charge, found end
    charge.translated, charge.moves = true, hints >= 4
    found = translation ~= '' and translation
    if fixed_part > 0 then charge.body = found or '' end
  end
  charge.found = found
  local at, full, written = HEAD + 1, nil, nil
  if found and charge.plain then
    full, written = string.match(found, '^(%d+)%d%d%d$'), nil
    if not full then full, written = string.match(found, '^(%d+)%d%d%d (%d+)$') end
    if not full then error(NOT_OURS) end
  end
  for l = 1, known do
    local limit, code, shadow, gap = {}, nil, nil, nil
    code, shadow, gap, from = unpack_at('>c1BI7', spec, from)
    limit.does, limit.shadow, limit.cost = algorithms[code], shadow == 1, charge.cost
    -- A policy that counts several units asks each limit for its own.
    if hints % 2 == 1 then limit.cost, next_cost = unpack_at('>I7', ask, next_cost) end
    limit.numbers, from = limit.does.numbers(spec, from)
    if code == 'f' and not limit.numbers.closes then return charge, false end
    if charge.plain then
      limit.state = limit.does.read_plain(full, written)
    else
      limit.state, at = limit.does.read(limit.numbers, found, at, charge)
    end
    charge.redated = limit.does.arrive(limit.numbers, limit.state) or charge.redated
    if gap > 0 then
      limit.gap = {every = gap}
      limit.last, at = interval.read(limit.gap, found, at)
      charge.redated = interval.arrive(limit.gap, limit.last) or charge.redated
    end
    charge.limits[l] = limit
  end
  if found and not charge.plain and at - 1 ~= (fixed_part > 0 and fixed_part or #found) then error(NOT_OURS) end
  return charge
end

-- All charges of a call, read before anything is changed: an error or a question back must leave nothing behind.
-- A question back: which charge, and the record that has to be translated; or 0, if a calendar's edges do not
-- surround now.
local function read_charges(count)
  local charges = {}
  for i = 1, count do
    local charge, other = read_charge()
    if other then return nil, {i, other} end
    if other == false then return nil, {0} end
    charges[i] = charge
  end
  return charges
end

-- The state of a charge as it is now, for the caller to derive every number of the decision from.
local function told(charge)
  if #charge.logs == 0 then return charge.found end
  if not charge.found then return false end
  local pieces = {'\1', charge.tag}
  for _, limit in ipairs(charge.limits) do
    local tell = limit.does.tell or limit.does.write
    pieces[#pieces + 1] = tell(limit.numbers, limit.state, limit.cost, limit.charged or 0)
    if limit.gap then pieces[#pieces + 1] = interval.write(limit.gap, limit.last) end
  end
  return table.concat(pieces)
end

local function save(charge)
  local longest, pieces, only = 0, {'\1', charge.tag}, charge.limits[1]
  for _, limit in ipairs(charge.limits) do
    if not charge.plain then pieces[#pieces + 1] = limit.does.write(limit.numbers, limit.state) end
    longest = max(longest, limit.does.reset(limit.numbers, limit.state))
    if limit.gap then
      pieces[#pieces + 1] = interval.write(limit.gap, limit.last)
      longest = max(longest, interval.reset(limit.gap, limit.last))
    end
  end
  charge.found = false
  if longest <= 0 then
    if charge.exists or #charge.logs > 0 then call('DEL', charge.key) end
    return
  end
  local ttl = net or max(1, math.ceil(longest / 1000))
  charge.found = charge.plain and only.does.write_plain(only.numbers, only.state, charge.tag)
    or table.concat(pieces)
  if #charge.logs == 0 then
    call('SET', charge.key, charge.found, 'PX', ttl)
    return
  end
  if charge.body then call('SET', charge.key, charge.body) end
  charge.body = nil
  call('SETRANGE', charge.key, 0, charge.found)
  for _, log in ipairs(charge.logs) do flush(log) end
  call('PEXPIRE', charge.key, ttl)
end
