
-- Takes charges back where they were made: of each limit, what the charge still contributes. What was charged is
-- noted under the last key, or passed by the caller.
local count, noted = unpack_at('>I2B', text())
local NOTE = noted == 1 and KEYS[#KEYS]
local note, from = NOTE and call('GET', NOTE), 1
if NOTE and (not note or note == 'settled') then return {now, {-1, note}} end
local charges, question = read_charges(count)
if question then return {now, question} end
for _, charge in ipairs(charges) do
  local marks = note or text()
  if not note then from = 1 end
  local tag, limits, at
  tag, limits, at, from = unpack_at('>c3BI7', marks, from)
  -- If the definition has changed since, it stays charged.
  local is_same = tag == charge.tag
  for i = 1, limits do
    local n, first_mark, second, gap
    n, first_mark, second, gap, from = unpack_at('>I7I7I7I7', marks, from)
    local limit = charge.limits[i]
    if is_same and n > 0 then
      limit.does.undo(limit.numbers, limit.state, n, at, first_mark, second)
      if limit.gap then interval.undo(limit.gap, limit.last, n, at, gap) end
    end
  end
  -- Behind them is noted what is held.
  from = from + 14 + 14 * limits
  if is_same and charge.found then save(charge) end
end
if NOTE then call('DEL', NOTE) end
return {now, {}}
