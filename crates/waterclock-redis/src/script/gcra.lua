#!lua
-- Many independent checks of policies that are one whole-microsecond gcra limit: most are. The
-- record is one integer, the instant at which the key is full again; where that is further off than a
-- full bucket, because units were debited, the instant of the last write stands behind it.
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
-- What a debt comes to by now: when the key is full, if that is no longer than a full bucket takes, and
-- whether the record is ours.
local function owing(key, found, latest)
  local full_at, written = string.match(type(found) == 'string' and found or '', '^(%d+) (%d+)$')
  if not full_at then return nil, false end
  -- However deep, it is real; a clock that stepped back shows by when it was written.
  local ahead = tonumber(written) - now
  full_at = ahead > 0 and math.max(0, full_at - ahead) or tonumber(full_at)
  if ahead > 0 then
    local ttl = math.max(1, ceil((full_at - now) / 1000))
    call('SET', key, format('%.0f %.0f', full_at, now), 'PX', net or format('%.0f', ttl))
  end
  return full_at <= latest and full_at or nil, true
end
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
        local ours
        full_at, ours = owing(key, found, latest)
        -- Another application's value: this check fails, its neighbours do not.
        found = ours and found or type(found) == 'table' and found or {err = 'WATERCLOCK a record that is not ours'}
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
