#!lua
-- Removes records. ARGV: trace time or nothing. Replies the instant.
redis.call('DEL', unpack(KEYS))
local time = redis.call('TIME')
return {tonumber(ARGV[1]) or time[1] * 1000000 + time[2]}
