
-- Settles what is noted here of a reservation that another server keeps, and notes that: once. Without a note the clock of
-- this server is ahead, and the reservation is over here: what was used is charged all the same. ARGV: the number of charges,
-- the id of their entries in the list of what is due, and how long to keep the note, in ms.
local NOTE = KEYS[#KEYS]
local count, id = unpack_at('>I2c8', text())
local kept_for_ms, known = text(), call('GET', NOTE)
if known == 'settled' then return {now, {-1, known}} end
local charges, question = read_charges(count)
if question then return {now, question} end
local states = adjust(charges, id)
call('SET', NOTE, 'settled', 'PX', net or kept_for_ms)
return {now, states}
