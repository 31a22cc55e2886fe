
-- Settling: once, and only what the caller has seen. ARGV: the reservation as it was seen, and what it
-- is to become.
local RESERVATION, seen, settled = KEYS[#KEYS], text(), text()
do
  local known = call('GET', RESERVATION)
  if known and now >= unpack_at('>I7', known) then known = false end
  if known ~= seen then return {now, {-1, known}} end
end
local charges, question = read_charges((unpack_at('>I2', text())))
if question then return {now, question} end
local states = adjust(charges)
call('SET', RESERVATION, settled, 'KEEPTTL')
return {now, states}
