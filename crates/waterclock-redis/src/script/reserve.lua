
-- Reserving: a check, and with it the reservation by which it can be settled. An existing reservation with this id
-- is returned, and nothing is charged again.
--
-- The record of a reservation: the instant at which its time is over; how many numbers follow; of each key
-- when it was charged, how much is held, and of each of its limits how much that was and until when it
-- counts; then what only the caller reads.
--
-- If it is given back when its time is over, that is noted beside each key (`due.lua`).
local RESERVATION = KEYS[#KEYS]
local count, hold_us, how, id = unpack_at('>I2I7c1c8', text())
held_until = now + hold_us
if how == RELEASE then holding = {over = held_until, id = id, how = how} end
local kept_for_ms, about = text(), text()
do
  local known = call('GET', RESERVATION)
  if known and now < unpack_at('>I7', known) then return {now, {-1, known}} end
end
local charges, question = read_charges(count)
if question then return {now, question} end
local full = holding and full_due(charges)
if full then
  tell_all(charges)
  return {now, {-2, full}}
end
local states = check('c', charges)
if held_until then
  local numbers = {}
  for i, charge in ipairs(charges) do numbers[i] = held_units(charge) end
  local held = table.concat(numbers)
  call('SET', RESERVATION, pack('>I7I7', held_until, #held / 7) .. held .. about, 'PX', net or kept_for_ms)
end
return {now, states}
