
-- Puts another record in the place of one that is still what the caller has seen: with another override before it, or
-- none. KEYS: the record, and the overrides of its slot. ARGV: what is expected, what to write, its time to live (nothing:
-- none), by what the key is listed, whether it is, and after how many microseconds the override expires (nothing: never),
-- which is written as an instant into it.
-- Replies the instant, and the record if it is another.
local call = redis.call
local found = call('GET', KEYS[1]) or ''
if found ~= ARGV[3] then return {now, found} end
local record, ttl = ARGV[4], tonumber(ARGV[5])
if ARGV[8] ~= '' then
  local lasts = tonumber(ARGV[8])
  record = string.sub(record, 1, 3) .. struct.pack('>I7', now + lasts) .. string.sub(record, 11)
  ttl = math.max(ttl or 0, math.ceil(lasts / 1000))
end
if record == '' then
  call('DEL', KEYS[1])
elseif ttl then
  call('SET', KEYS[1], record, 'PX', string.format('%d', net or math.max(1, ttl)))
else
  call('SET', KEYS[1], record)
end
if ARGV[7] == '1' then call('HSET', KEYS[2], ARGV[6], '') else call('HDEL', KEYS[2], ARGV[6]) end
return {now, false}
