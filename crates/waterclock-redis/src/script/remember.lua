#!lua
-- Puts a policy's definition before the ones that were used earlier. A definition starts with its mark
-- and ends with an empty line; one that is replaced gets the second of that behind its mark.
-- ARGV: the definition, its mark, its time to live, how many are kept. Replies the second and all kept.
local second = redis.call('TIME')[1]
local known = redis.call('GET', KEYS[1]) or ''
local kept, from = {ARGV[1]}, 1
while #kept < tonumber(ARGV[4]) do
  local _, upto = string.find(known, '\n\n', from, true)
  if not upto then break end
  local older = string.sub(known, from, upto)
  if string.sub(older, 1, #ARGV[2]) ~= ARGV[2] then
    if from == 1 then older = string.gsub(older, '\n', ' ' .. second .. '\n', 1) end
    kept[#kept + 1] = older
  end
  from = upto + 1
end
local all = table.concat(kept)
redis.call('SET', KEYS[1], all, 'PX', ARGV[3])
return {tonumber(second), all}
