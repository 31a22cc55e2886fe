
-- A record starts with a byte and the tag of the definition by which it was written; if the byte is 2, two instants
-- follow, at which something is to be given back: the first and the last, or 0 (`due.lua`). Then comes the fixed part
-- of the state of each limit, and then the logs; nothing, if it is fresh. Records with logs always have the instants. A
-- policy of one plain gcra limit keeps one decimal number that ends in the tag; the instants stand behind it.
--
-- Two things may stand before that. A byte 4, a length and as many bytes: the override of the key, which stays when the
-- state is fresh; its first number is the instant at which it expires, or 0. A byte 5, a length and as many bytes: by
-- which limits the state was written, where no tag says so. The caller passes both, as it expects them.
local HEAD, INSTANTS, OVERRIDE = 4, 14, 4
local PLAIN = '^(%d+)%d%d%d ?(%d*)%+?(%d*)%+?(%d*)$'

-- The next key, with what is asked of it. Or a question back: which charge, and
-- its record, if another definition wrote that, which only the caller can translate, and what is due of it;
-- nothing more, if something is due, and the caller has to say where that is noted;
-- 0 instead of the charge, if a calendar's edges do not surround now.
local function read_charge(i)
  keys = keys + 1
  local spec, ask = text(), text()
  local mode, flags, tag, fixed_part, known, from = unpack_at('>c1Bc3I2B', spec)
  local cost, hints, next_cost = unpack_at('>I7B', ask)
  local charge = {
    key = KEYS[keys], limits = {}, logs = {}, mode = mode, tag = tag, cost = cost,
    plain = flags % 2 == 1, shadow = flags % 4 >= 2, rings = fixed_part, prefix = false, expires = false,
    exists = false, found = false, redated = false, admits = true, grants = 0,
  }
  if hints >= 8 then
    keys, hints = keys + 1, hints - 8
    charge.due_key = KEYS[keys]
  end
  local skip, prefix = 0, false
  if flags >= 4 then
    prefix = text()
    skip = #prefix
    charge.prefix, charge.rings = prefix, fixed_part + skip
    if string.byte(prefix) == OVERRIDE then charge.expires = unpack_at('>I7', prefix, 4) end
  end
  local found
  if fixed_part > 0 then
    found = call('GETRANGE', charge.key, 0, skip + fixed_part - 1)
    if found == '' then found = false end
  else
    found = call('GET', charge.key)
  end
  charge.exists = found and true
  local body, expected = found, true
  if prefix then
    expected = found and sub(found, 1, skip) == prefix
    if expected then body = #found > skip and sub(found, skip + 1) end
    if charge.expires then
      -- An override alone: the state is fresh.
      if found and not expected and #found == 3 + unpack_at('>I2', prefix, 2) and found == sub(prefix, 1, #found) then
        body, expected = false, true
      end
      expected = expected and (charge.expires == 0 or now < charge.expires)
    else
      expected = expected or not found
    end
  end
  local translated, translation, translated_due, due
  if hints >= 2 then translated, translation, translated_due, due = text(), text(), text(), text() end
  local first = body and string.byte(body)
  local packed = first == 1 or first == 2
  local ours = not body or (charge.plain and string.match(body, '^%d+(%d%d%d)') or sub(body, 2, HEAD)) == charge.tag
    and (charge.plain or packed)
  if not (ours and expected) then
    if fixed_part > 0 then found = call('GET', charge.key) end
    found = found or ''
    if first and not packed and first ~= 4 and first ~= 5 and not string.match(prefix and body or found, PLAIN) then
      error(NOT_OURS)
    end
    local noted = charge.due_key and (call('GET', charge.due_key) or '')
    if translated ~= found or noted and translated_due ~= noted then return nil, {i, found, noted or nil} end
    charge.translated, charge.moves, charge.due = true, hints >= 4, noted and due
    body = translation ~= '' and translation
    if fixed_part > 0 then charge.body = (prefix or '') .. (body or '') end
  end
  found = body
  charge.found = found
  local at, full, written = HEAD + 1, nil, nil
  if found and charge.plain then
    full = string.match(found, '^(%d+)%d%d%d$')
    if not full then
      full, written, charge.next_due, charge.last_due = string.match(found, PLAIN)
      if not full then error(NOT_OURS) end
      charge.next_due, charge.last_due = tonumber(charge.next_due), tonumber(charge.last_due)
    end
  elseif found and string.byte(found) == 2 then
    charge.next_due, charge.last_due, at = unpack_at('>I7I7', found, at)
    if charge.next_due == 0 then charge.next_due = nil end
    if #found == HEAD + INSTANTS then found = false end
  end
  if charge.next_due and now >= charge.next_due and not charge.due_key then return nil, {i} end
  for l = 1, known do
    local code, shadow, gap
    code, shadow, gap, from = unpack_at('>c1BI7', spec, from)
    local limit = {
      does = algorithms[code], shadow = shadow == 1, cost = cost, numbers = false, state = false, charged = 0, gap = false,
    }
    -- A policy that counts several units asks each limit for its own.
    if hints % 2 == 1 then limit.cost, next_cost = unpack_at('>I7', ask, next_cost) end
    limit.numbers, from = limit.does.numbers(spec, from)
    if code == 'f' and not limit.numbers.closes then return nil, {0} end
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
local function read_charges(count)
  local charges = {}
  for i = 1, count do
    local charge, question = read_charge(i)
    if question then return nil, question end
    charges[i] = charge
  end
  for _, charge in ipairs(charges) do
    if charge.due_key then give_back_due(charge) end
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
    pieces[#pieces + 1] = tell(limit.numbers, limit.state, limit.cost, limit.charged)
    if limit.gap then pieces[#pieces + 1] = interval.write(limit.gap, limit.last) end
  end
  return table.concat(pieces)
end

-- The record of a charge without its logs, and how long it matters; false if it is as good as fresh.
local function encode(charge)
  local longest, pieces, only = 0, {'\1', charge.tag}, charge.limits[1]
  local next_due, last_due = charge.next_due or 0, charge.last_due or 0
  if charge.next_due then longest = last_due - now end
  if charge.next_due or #charge.logs > 0 then
    pieces[1], pieces[3] = '\2', pack('>I7I7', next_due, last_due)
  end
  for l = 1, #charge.limits do
    local limit = charge.limits[l]
    if not charge.plain then pieces[#pieces + 1] = limit.does.write(limit.numbers, limit.state) end
    longest = max(longest, limit.does.reset(limit.numbers, limit.state))
    if limit.gap then
      pieces[#pieces + 1] = interval.write(limit.gap, limit.last)
      longest = max(longest, interval.reset(limit.gap, limit.last))
    end
  end
  if longest <= 0 then return false, 0 end
  if not charge.plain then return table.concat(pieces), longest end
  local record = only.does.write_plain(only.numbers, only.state, charge.tag)
  if charge.next_due then record = string.format('%s+%.0f+%.0f', record, next_due, last_due) end
  return record, longest
end

local function save(charge)
  -- Without limits (a factor of 0) there is nothing to write, and what other limits wrote stays.
  if #charge.limits == 0 then return end
  local record, longest = encode(charge)
  -- An override outlives the state.
  local expires = charge.expires
  if expires and expires > 0 then longest = max(longest, expires - now) end
  -- Formatted here because Redis 7.0 would print it as a double, which takes longer.
  local ttl = string.format('%d', net or max(1, math.ceil(longest / 1000)))
  charge.found = record
  if charge.due_changed then write_due(charge, ttl) end
  if charge.prefix then
    if expires and not record and #charge.logs > 0 then charge.logs, charge.body = {}, nil end
    record = (record or expires) and charge.prefix .. (record or '')
    if expires == 0 and not net then ttl = false end
  end
  if not record then
    if charge.exists or #charge.logs > 0 then call('DEL', charge.key) end
    return
  end
  if #charge.logs == 0 then
    if ttl then call('SET', charge.key, record, 'PX', ttl) else call('SET', charge.key, record) end
    return
  end
  if charge.body then call('SET', charge.key, charge.body) end
  charge.body = nil
  call('SETRANGE', charge.key, 0, record)
  for _, log in ipairs(charge.logs) do flush(log) end
  if ttl then call('PEXPIRE', charge.key, ttl) else call('PERSIST', charge.key) end
end

-- What is the case, and nothing more is done than to save what was tidied up.
local function tell_all(charges)
  local states = {}
  for i, charge in ipairs(charges) do
    states[i] = told(charge)
    if charge.tidied and not charge.translated then save(charge) end
  end
  return states
end
