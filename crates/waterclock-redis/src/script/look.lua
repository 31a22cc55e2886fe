
-- What is known of a reservation. If nothing is and the caller wants it to be, that it is about to be
-- made. ARGV: for how long it is held, its time to live, and what only the caller reads.
local known = redis.call('GET', KEYS[1])
if known and now >= struct.unpack('>I7', known) then known = false end
if not known and ARGV[3] then
  redis.call('SET', KEYS[1], struct.pack('>I7I7', now + ARGV[3], 0) .. ARGV[5], 'PX', net or ARGV[4])
end
return {now, known}
