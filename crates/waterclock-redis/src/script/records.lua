
-- The numbers come out of a record one after the other: seven bytes each, or, where a record is only
-- one number, as that number, and behind it when it was written if it owes more than a full bucket.
local function reader(found, plain)
  if not found then
    return function() return 0 end, function() return '' end, function() end
  end
  if plain then
    local only, written = string.match(found, '^%d+$'), nil
    if not only then only, written = string.match(found, '^(%d+) (%d+)$') end
    if not only then error(NOT_OURS) end
    local numbers, from = {tonumber(only), tonumber(written)}, 0
    return function() from = from + 1 return numbers[from] end, nil, function() end
  end
  local from = 1
  local function take()
    local value
    value, from = struct.unpack('>I7', found, from)
    return value
  end
  local function bytes(length)
    local start = from
    from = from + length
    if from - 1 > #found then error(NOT_OURS) end
    return string.sub(found, start, from - 1)
  end
  local function finish()
    if from - 1 ~= #found then error(NOT_OURS) end
  end
  return take, bytes, finish
end

local function save(charge)
  local longest, record, plain = 0, {}, charge.plain
  local function raw(piece) record[#record + 1] = piece end
  local function put(value) raw(plain and string.format('%.0f', value) or struct.pack('>I7', value)) end
  for _, limit in ipairs(charge.limits) do
    limit.does.write(limit.numbers, limit.state, put, raw)
    longest = max(longest, limit.does.reset(limit.numbers, limit.state))
    if limit.gap then
      interval.write(limit.gap, limit.last, put)
      longest = max(longest, interval.reset(limit.gap, limit.last))
    end
  end
  -- What is written here is no longer elsewhere.
  if charge.elsewhere[1] then redis.call('DEL', unpack(charge.elsewhere)) end
  if longest <= 0 then
    if charge.found then redis.call('DEL', charge.key) end
    return
  end
  charge.written = table.concat(record, plain and ' ' or '')
  redis.call('SET', charge.key, charge.written, 'PX', net or max(1, math.ceil(longest / 1000)))
end

if verb == 'reset' then
  redis.call('DEL', unpack(KEYS))
  return {now}
end

-- Read everything first: an error or a question back must leave nothing behind.
local reply, charges, keys = {now}, {}, 0
for i = 1, count do
  keys = keys + 1
  local charge = {key = KEYS[keys], cost = number(), apart = number() == 1, mode = text(), shadow = number() == 1, plain = number() == 1}
  local others, carried = number(), {}
  if others > 0 then
    for _ = 1, number() do carried[number()] = {text(), text(), number()} end
  end
  local known = number()
  charge.found, charge.elsewhere = redis.call('GET', charge.key), {}
  for generation = 1, others do
    keys = keys + 1
    local there = not charge.found and redis.call('GET', KEYS[keys])
    if there then
      -- Written under another definition: only the caller can translate it, and may have done so.
      local means = carried[generation]
      if not means or means[1] ~= there then return {now, {i, generation, there}} end
      charge.elsewhere[#charge.elsewhere + 1] = KEYS[keys]
      charge.found = means[2] ~= '' and means[2]
      -- What a definition that is gone has left goes on by the new numbers at once, whatever is decided.
      charge.moves = charge.moves or means[3] == 1
    end
  end
  reply[i + 1] = charge.found
  charge.limits = {}
  local take, bytes, finish = reader(charge.found, charge.plain)
  for l = 1, known do
    -- A policy that counts several units asks each limit for its own.
    local cost = charge.apart and number() or charge.cost
    local limit = {cost = cost, does = algorithms[text()], shadow = number() == 1}
    local gap = number()
    limit.numbers = limit.does.numbers()
    if limit.does == fixed and not limit.numbers.closes then return {now} end
    limit.state = limit.does.read(limit.numbers, take, bytes)
    charge.redated = limit.does.arrive(limit.numbers, limit.state) or charge.redated
    if gap > 0 then
      limit.gap = {every = gap}
      limit.last = interval.read(limit.gap, take)
      charge.redated = interval.arrive(limit.gap, limit.last) or charge.redated
    end
    charge.limits[l] = limit
  end
  finish()
  charges[i] = charge
end

