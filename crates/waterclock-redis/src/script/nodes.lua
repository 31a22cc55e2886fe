#!lua
-- Counts the nodes that are alive. A node calls this several times in every epoch and is counted once in it.
-- ARGV: the epoch in which the caller was last counted ('' if in none, '?' if it cannot know), how many seconds an epoch
-- lasts, and 'leave' if the caller ends.
-- The record: an epoch, how many nodes were counted in it, and how many in the one before.
-- Replies the epoch and how many nodes are alive, the caller at least.
local seconds = tonumber(ARGV[2])
local epoch = math.floor(redis.call('TIME')[1] / seconds)
local known, now, before = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+) (%d+)$')
known, now, before = tonumber(known), tonumber(now or 0), tonumber(before or 0)
-- A record of another epoch, or none, has lost the caller.
local is_counted = known == epoch and tonumber(ARGV[1]) == epoch
if known ~= epoch then
  before = known == epoch - 1 and now or 0
  now = 0
end
if ARGV[3] == 'leave' then
  if is_counted then now = math.max(now - 1, 0) end
elseif not is_counted and ARGV[1] ~= '?' then
  now = now + 1
end
redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f', epoch, now, before), 'PX', string.format('%.0f', 3000 * seconds))
return {epoch, math.max(now, before, 1)}
