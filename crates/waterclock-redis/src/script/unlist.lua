
-- Takes a key off the list of those with an override, if it has none. KEYS: the record, and the list. ARGV: by what it is
-- listed.
local head = redis.call('GETRANGE', KEYS[1], 0, 9)
local is_kept = string.byte(head) == 4
if is_kept then
  local expires = struct.unpack('>I7', head, 4)
  is_kept = expires == 0 or now < expires
end
if not is_kept then redis.call('HDEL', KEYS[2], ARGV[3]) end
return {now}
