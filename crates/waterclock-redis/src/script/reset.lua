
-- Removes records. What is due of a key is still given back when its time is over (`due.lua`). Replies the instant.
for _, key in ipairs(KEYS) do
  -- An override stays (`records.lua`); what else stands before the state goes with it, unless something is due.
  local head, kept, from, expires = redis.call('GETRANGE', key, 0, 9), '', 0, false
  if string.byte(head) == 4 then
    local length
    length, expires = struct.unpack('>I2I7', head, 2)
    from = 3 + length
    kept = redis.call('GETRANGE', key, 0, from - 1)
    head = redis.call('GETRANGE', key, from, from + 9)
  end
  local by = ''
  if string.byte(head) == 5 then
    local length = 3 + struct.unpack('>I2', head, 2)
    by = redis.call('GETRANGE', key, from, from + length - 1)
    from = from + length
  end
  head = redis.call('GETRANGE', key, from, from + 127)
  local tag, next_due, last_due = string.match(head, '^%d+(%d%d%d) ?%d*%+(%d+)%+(%d+)$')
  local fresh = tag and '0' .. tag .. '+' .. next_due .. '+' .. last_due
  if string.byte(head) == 2 then
    next_due, last_due = struct.unpack('>I7I7', head, 5)
    fresh = next_due > 0 and string.sub(head, 1, 18)
  end
  local ttl = fresh and (net or math.ceil((last_due - now) / 1000)) or 0
  local left = kept .. (ttl > 0 and by .. fresh or '')
  if expires and expires > 0 then ttl = math.max(ttl, net or math.ceil((expires - now) / 1000)) end
  if left ~= '' and expires == 0 then
    redis.call('SET', key, left)
  elseif left ~= '' and ttl > 0 then
    redis.call('SET', key, left, 'PX', ttl)
  else
    redis.call('DEL', key)
  end
end
return {now}
