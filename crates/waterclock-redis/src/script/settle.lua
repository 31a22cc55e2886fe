
-- Settling: once, and only what the caller has seen. ARGV: the reservation as it was seen, and what it
-- is to become, and how many charges and by which id it is noted beside them what is given back when its time is over.
local RESERVATION, seen, settled = KEYS[#KEYS], text(), text()
local count, id = unpack_at('>I2c8', text())
do
  local known = call('GET', RESERVATION)
  if known and now >= unpack_at('>I7', known) then known = false end
  if known ~= seen then return {now, {-1, known}} end
end
local charges, question = read_charges(count)
if question then return {now, question} end
for _, charge in ipairs(charges) do
  if charge.due_key then drop_due(charge, id) end
end
local states = adjust(charges)
call('SET', RESERVATION, settled, 'KEEPTTL')
return {now, states}
