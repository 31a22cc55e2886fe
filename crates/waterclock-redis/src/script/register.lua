#!lua
-- Registers a definition of a policy: the tag by which records name it. ARGV: the definition, the tag it would like
-- (1 to 999), for how many seconds its records may be found after its last use, how long the key lives.
-- A hash has for each tag the second until which it is kept and its definition, and for each definition its tag.
-- Replies the tag.
local second = tonumber(redis.call('TIME')[1])
local text, wanted = ARGV[1], tonumber(ARGV[2])
local own, oldest = redis.call('HGET', KEYS[1], text), nil
for step = 0, 998 do
  if own then break end
  local tag = string.format('%03d', (wanted - 1 + step) % 999 + 1)
  local known = redis.call('HGET', KEYS[1], tag)
  local til, other = string.match(known or '0\n', '^(%d+)\n(.*)$')
  if not oldest or tonumber(til) < oldest.til then oldest = {til = tonumber(til), tag = tag, text = other} end
  if oldest.til <= second then own = oldest.tag end
end
if oldest then
  -- It has expired; or all are in use, and the one that ends first gives way.
  own = oldest.tag
  if oldest.text ~= '' then redis.call('HDEL', KEYS[1], oldest.text) end
end
redis.call('HSET', KEYS[1], own, string.format('%.0f\n%s', second + ARGV[3], text), text, own)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {own}
