-- The generic cell rate algorithm as one writes it: ask for the time, read the arrival time, decide,
-- store, answer in full. KEYS: the key. ARGV: microseconds per unit, units at once.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval = tonumber(ARGV[1])
local burst = tonumber(ARGV[2])
local room = interval * burst

local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local later = arrival + interval
local wait = later - room - now
if wait > 0 then
  local remaining = math.floor((now + room - arrival) / interval)
  return {0, burst, remaining, math.ceil(wait / 1000), math.ceil((arrival - now) / 1000)}
end

local reset = math.ceil((later - now) / 1000)
redis.call('SET', KEYS[1], later, 'PX', reset)
return {1, burst, math.floor((now + room - later) / interval), 0, reset}
