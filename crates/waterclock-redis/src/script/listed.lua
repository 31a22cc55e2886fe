
-- By what keys with an override are listed. Replies the instant, and of each list its entries.
local reply = {now}
for i, key in ipairs(KEYS) do reply[i + 1] = redis.call('HKEYS', key) end
return reply
