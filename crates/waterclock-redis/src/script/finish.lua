
-- Settles what is noted here of a reservation that another server keeps, and notes that: once.
local NOTE = KEYS[#KEYS]
local known = call('GET', NOTE)
if not known or known == 'settled' then return {now, {-1, known}} end
local charges, question = read_charges((unpack_at('>I2', text())))
if question then return {now, question} end
local states = adjust(charges)
call('SET', NOTE, 'settled', 'KEEPTTL')
return {now, states}
