
-- Puts a reservation in another's place if that is still what it was and its time is not over. ARGV: what is expected,
-- what to write (nothing: none), its time to live. Replies whether it was done.
local known = redis.call('GET', KEYS[1])
if known ~= ARGV[3] or now >= struct.unpack('>I7', known) then return 0 end
if ARGV[4] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
end
return 1
