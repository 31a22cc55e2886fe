
-- Settling: once, and only what the caller has seen. ARGV: the reservation as it was seen, and what it
-- is to become, and how many charges and by which id those are listed that are given back when their time is over.
local RESERVATION, seen, settled = KEYS[#KEYS], text(), text()
local count, id = unpack_at('>I2c8', text())
do
  local known = call('GET', RESERVATION)
  if known and now >= unpack_at('>I7', known) then known = false end
  if known ~= seen then return {now, {-1, known}} end
end
local charges, question = read_charges(count)
if question then return {now, question} end
local states = adjust(charges, id)
call('SET', RESERVATION, settled, 'KEEPTTL')
return {now, states}
