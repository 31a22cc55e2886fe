#!lua
-- Many independent checks of policies that are one whole-microsecond gcra limit: most are. The
-- record is one integer, the instant at which the key is full again.
-- ARGV: trace time or nothing, and with it a time to live that is only a safety net; then for each
-- run of KEYS the time its cost takes, the depth of a full bucket, and its length.
-- Replies the instant and what was found under each key; the numbers of a decision follow from that.
local now, net = tonumber(ARGV[1]), tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local call, pcall = redis.call, redis.pcall
local ceil, find, format = math.ceil, string.find, string.format
local reply, at = {now}, 0
for i = 3, #ARGV, 3 do
  local span, latest = tonumber(ARGV[i]), now + tonumber(ARGV[i + 1])
  for _ = 1, tonumber(ARGV[i + 2]) do
    at = at + 1
    local key = KEYS[at]
    local found = pcall('GET', key)
    local full_at = now
    if found then
      full_at = type(found) == 'string' and find(found, '^%d+$') and tonumber(found)
      if not full_at then
        -- Somebody else's value: this check fails, its neighbours do not.
        found = type(found) == 'table' and found or {err = 'TOLLGATE a record that is not ours'}
      end
    end
    reply[at + 1] = found
    if full_at then
      -- A record later than any written now: the clock stepped back. What was used stays used.
      local redated = full_at > latest
      if redated then full_at = latest elseif full_at < now then full_at = now end
      if full_at + span <= latest then
        full_at, redated = full_at + span, true
      end
      if redated then
        local ttl = net or ceil((full_at - now) / 1000)
        -- Formatted here because Redis 7.0 would print both as doubles, which takes a tenth longer.
        call('SET', key, format('%d', full_at), 'PX', format('%d', ttl > 0 and ttl or 1))
      end
    end
  end
end
return reply
