#!lua
-- Policies that are kept as text for all nodes. KEYS: a hash, and a sorted set of names by the version of their last
-- change, those of dropped policies included. The hash has each text under its name after a '=', and numbers:
-- '#version'; '#count' and '#bytes' of what is kept; '#since', the version from which on drops are known.
-- ARGV and replies:
--   'read', since, most bytes -> the version that is reached, 1 if it starts over, 1 if there is more, names and texts
--   'keep', name, text, most policies, most bytes -> the version before and now, 1 if it existed; or nothing if full
--   'drop', name, how many dropped names are remembered -> the same
local texts, order = KEYS[1], KEYS[2]
local function number(field) return tonumber(redis.call('HGET', texts, field) or 0) end
local function written(n) return string.format('%.0f', n) end
local version = number('#version')
if ARGV[1] == 'read' then
  local since, room = tonumber(ARGV[2]), tonumber(ARGV[3])
  if since == version then return {written(version), 0, 0} end
  local starts_over = since == 0 or since > version or since < number('#since')
  if starts_over then since = 0 end
  local reply, reached = {'', starts_over and 1 or 0, 0}, version
  local changed = redis.call('ZRANGE', order, '(' .. written(since), '+inf', 'BYSCORE', 'LIMIT', 0, 256, 'WITHSCORES')
  for i = 1, #changed, 2 do
    local name = changed[i]
    local text = redis.call('HGET', texts, '=' .. name) or ''
    room = room - #name - #text
    if room < 0 and i > 1 then break end
    reply[#reply + 1], reply[#reply + 2] = name, text
    reached = tonumber(changed[i + 1])
  end
  reply[1], reply[3] = written(reached), reached < version and 1 or 0
  return reply
end
local name, text = ARGV[2], ARGV[1] == 'keep' and ARGV[3]
local old = redis.call('HGET', texts, '=' .. name)
local existed = old and 1 or 0
if old == text then return {written(version), written(version), existed} end
local count = number('#count') + (text and 1 or 0) - existed
local bytes = number('#bytes') + (text and #name + #text or 0) - (old and #name + #old or 0)
if text and (count > tonumber(ARGV[4]) or bytes > tonumber(ARGV[5])) then return {} end
-- A server that lost what it was last given counts on from the clock, so that no version is given twice.
local time = redis.call('TIME')
local now = written(math.max(version + 1, time[1] * 1000000 + time[2]))
-- First what a user may lack the right to: then nothing is done by half.
redis.call('ZADD', order, now, name)
redis.call('HSET', texts, '#version', now, '#count', written(count), '#bytes', written(bytes))
if text then
  redis.call('HSET', texts, '=' .. name, text)
else
  redis.call('HDEL', texts, '=' .. name)
  if redis.call('ZCARD', order) - count > tonumber(ARGV[3]) then
    -- All others get new versions, so that a node that starts over reads on from any page.
    local at = tonumber(now)
    redis.call('HSET', texts, '#since', now)
    for _, known in ipairs(redis.call('ZRANGE', order, 0, -1)) do
      if redis.call('HGET', texts, '=' .. known) then
        at = at + 1
        redis.call('ZADD', order, written(at), known)
      else
        redis.call('ZREM', order, known)
      end
    end
    now = written(at)
    redis.call('HSET', texts, '#version', now)
  end
end
return {written(version), now, existed}
