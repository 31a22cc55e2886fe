
-- A check of what is held for a reservation that another server keeps. What is held is noted here, too, under the last
-- key: asked for again, nothing is charged again. ARGV: how many charges, for how long, how it is withheld; how long the
-- note is kept.
local NOTE = KEYS[#KEYS]
local count, hold_us, verb = unpack_at('>I2I7c1', text())
held_until = now + hold_us
local kept_for_ms, known = text(), call('GET', NOTE)
if known then return {now, {-1, known}} end
local charges, question = read_charges(count)
if question then return {now, question} end
local states = check(verb, charges, true)
if held_until then
  local notes = {}
  for i, charge in ipairs(charges) do notes[i] = charge.marks .. held_units(charge) end
  call('SET', NOTE, table.concat(notes), 'PX', net or kept_for_ms)
end
return {now, states}
