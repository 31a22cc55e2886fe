#!lua
-- Puts a reservation in another's place if that is still what it was and its time is not over. ARGV: trace time or
-- nothing, what is expected, what to write (nothing: none), its time to live. Replies whether it was done.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local known = redis.call('GET', KEYS[1])
if known ~= ARGV[2] or now >= struct.unpack('>I7', known) then return 0 end
if ARGV[3] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
end
return 1
