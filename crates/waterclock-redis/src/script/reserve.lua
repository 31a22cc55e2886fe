
-- Reserving. An existing reservation with this id is returned, and nothing is charged again.
--
-- The record of a reservation: the instant at which its time is over; how many numbers follow; of each key
-- when it was charged, how much is held, and of each of its limits how much that was and until when it
-- counts; then what only the caller reads.
local RESERVATION, NOTHING = KEYS[#KEYS], 2 * EXACT
held_until = now + number()
local kept_for_ms, about = text(), text()
do
  local known = redis.call('GET', RESERVATION)
  if known and now < struct.unpack('>I7', known) then return {now, {known}} end
end
