
-- A check of what is held for a reservation that another server keeps. What is held is noted here, too, under the last
-- key: asked for again, nothing is charged again. ARGV: how many charges, for how long, how it is withheld, what becomes
-- of it when its time is over, by which id that is noted, and how much later than that; how long the note is kept.
local NOTE = KEYS[#KEYS]
local count, hold_us, verb, how, id, grace_us = unpack_at('>I2I7c1c1c8I7', text())
held_until = now + hold_us
holding = {over = held_until + grace_us, id = id, how = how}
local kept_for_ms, known = text(), call('GET', NOTE)
if known then return {now, {-1, known}} end
local charges, question = read_charges(count)
if question then return {now, question} end
local full = how == RELEASE and full_due(charges)
if full then
  tell_all(charges)
  return {now, {-2, full}}
end
local states = check(verb, charges, true)
if held_until then
  local notes = {}
  for _, charge in ipairs(charges) do notes[#notes + 1] = charge.marks .. held_units(charge) end
  call('SET', NOTE, table.concat(notes), 'PX', net or kept_for_ms)
end
return {now, states}
