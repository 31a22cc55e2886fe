
-- Settles what is noted here of a reservation that another server keeps, and notes that: once. What was given back when
-- its time was over stays given back. ARGV: how many charges, and by which id they are noted to be given back.
local NOTE = KEYS[#KEYS]
local count, id = unpack_at('>I2c8', text())
local known = call('GET', NOTE)
if not known or known == 'settled' then return {now, {-1, known}} end
local charges, question = read_charges(count)
if question then return {now, question} end
local states
if now < unpack_at('>I7', known) then
  for _, charge in ipairs(charges) do drop_due(charge, id) end
  states = adjust(charges)
else
  states = tell_all(charges)
end
call('SET', NOTE, 'settled', 'KEEPTTL')
return {now, states}
