#!lua
-- Registers a definition of a policy: the tag by which records name it. ARGV: the definition, the tag it would like
-- (1 to 999), for how many seconds its records may be found after its last use, how long the key lives.
-- A definition is kept as a line "tag until" and its text, which ends with an empty line. Replies the tag and all
-- definitions that may still be found.
local second, known = tonumber(redis.call('TIME')[1]), redis.call('GET', KEYS[1]) or ''
local text, wanted, kept, taken, own = ARGV[1], tonumber(ARGV[2]), {}, {}, nil
for tag, til, other in string.gmatch(known, '(%d%d%d) (%d+)\n(.-\n)\n') do
  if other == text then
    own = tag
  elseif tonumber(til) > second then
    kept[#kept + 1] = {tag = tag, til = tonumber(til), text = other}
    taken[tonumber(tag)] = true
  end
end
for step = 0, 998 do
  if own then break end
  local tag = (wanted - 1 + step) % 999 + 1
  if not taken[tag] then own = string.format('%03d', tag) end
end
if not own then
  -- The one that ends first gives way.
  table.sort(kept, function(a, b) return a.til > b.til end)
  own = table.remove(kept).tag
end
local all = {string.format('%s %.0f\n%s\n', own, second + ARGV[3], text)}
for i, other in ipairs(kept) do
  all[i + 1] = string.format('%s %.0f\n%s\n', other.tag, other.til, other.text)
end
all = table.concat(all)
redis.call('SET', KEYS[1], all, 'PX', ARGV[4])
return {own, all}
