
-- Settling: once, and only what the caller has seen. ARGV: the reservation as it was seen, and what it
-- is to become.
local RESERVATION, seen, settled = KEYS[#KEYS], text(), text()
do
  local known = redis.call('GET', RESERVATION)
  if known and now >= struct.unpack('>I7', known) then known = false end
  if known ~= seen then return {now, {known}} end
end
