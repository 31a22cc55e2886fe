
-- Removes records. What is due of a key is still given back when its time is over (`due.lua`). Replies the instant.
for _, key in ipairs(KEYS) do
  local head = redis.call('GETRANGE', key, 0, 127)
  local tag, next_due, last_due = string.match(head, '^%d+(%d%d%d) ?%d*%+(%d+)%+(%d+)$')
  local fresh = tag and '0' .. tag .. '+' .. next_due .. '+' .. last_due
  if string.byte(head) == 2 then
    next_due, last_due = struct.unpack('>I7I7', head, 5)
    fresh = next_due > 0 and string.sub(head, 1, 18)
  end
  local ttl = fresh and (net or math.ceil((last_due - now) / 1000)) or 0
  if ttl > 0 then redis.call('SET', key, fresh, 'PX', ttl) else redis.call('DEL', key) end
end
return {now}
