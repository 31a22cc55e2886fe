
-- Settles what is noted here of a reservation that another server keeps, and notes that: once. ARGV: how many charges,
-- and by which id those are listed that are given back when their time is over.
local NOTE = KEYS[#KEYS]
local count, id = unpack_at('>I2c8', text())
local known = call('GET', NOTE)
if not known or known == 'settled' then return {now, {-1, known}} end
local charges, question = read_charges(count)
if question then return {now, question} end
local states = adjust(charges, id)
call('SET', NOTE, 'settled', 'KEEPTTL')
return {now, states}
