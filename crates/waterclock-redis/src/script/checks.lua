
local reply = {now}
local function one(verb, count)
  holding = nil
  if verb == 'h' then
    local id, hold_us = unpack_at('>c8I7', text())
    holding = {over = now + hold_us, id = id, how = UNDO}
  end
  local charges, question = read_charges(count)
  if question then return question end
  local states = check(verb, charges, verb == 'h' or verb == 'l')
  for i, charge in ipairs(charges) do
    if charge.marks then states[i] = {states[i], charge.marks, charge.is_noted and 1 or 0} end
  end
  return states
end
while cursor < #ARGV do
  local verb, count, args, names = unpack_at('>c1I2I2I2', text())
  local next_arg, next_key = cursor + args, keys + names
  -- Another application's value: this check fails, its neighbours do not.
  local ok, answer = pcall(one, verb, count)
  reply[#reply + 1] = ok and answer or type(answer) == 'table' and answer or {err = tostring(answer)}
  cursor, keys = next_arg, next_key
end
return reply
