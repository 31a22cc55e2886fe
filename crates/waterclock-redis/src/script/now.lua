#!lua
-- What every script starts with. Trace time where the caller passes it, and then a time to live that is only a safety net.
local now, net = tonumber(ARGV[1]), tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
