
-- Removes records. Replies the instant.
redis.call('DEL', unpack(KEYS))
return {now}
