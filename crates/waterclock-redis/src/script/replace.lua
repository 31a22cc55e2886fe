#!lua
-- Puts one record in another's place if that is still what it was: to undo a charge. ARGV: what is
-- expected, what to write (nothing: none), its time to live. Replies whether it was done.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if KEYS[2] ~= KEYS[1] and redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('DEL', KEYS[1])
if ARGV[2] ~= '' then redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3]) end
return 1
