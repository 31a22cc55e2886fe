
-- Takes charges back where they were made: of each limit, what the charge still contributes. What was charged is
-- noted under the last key, or passed by the caller. ARGV: how many charges, whether there is such a note, and by which
-- id those are listed that are given back when their time is over: what was given back is not taken back again.
local count, has_note, id = unpack_at('>I2Bc8', text())
local NOTE = has_note == 1 and KEYS[#KEYS]
local note, from = NOTE and call('GET', NOTE), 1
if NOTE and (not note or note == 'settled') then return {now, {-1, note}} end
local charges, question = read_charges(count)
if question then return {now, question} end
for _, charge in ipairs(charges) do
  local marks = note or text()
  if not note then from = 1 end
  local tag, is_listed, limits, at
  tag, is_listed, limits, at, from = unpack_at('>c3BBI7', marks, from)
  local entry = is_listed == 1 and drop_due(charge, id)
  -- If the definition has changed since, it stays charged.
  local undoes = tag == charge.tag and (entry or is_listed == 0)
  -- Its own marks have moved with what was undone before it.
  local has_marks = entry and how_of(entry) ~= RELEASE
  for i = 1, limits do
    local n, first_mark, second, gap
    n, first_mark, second, gap, from = unpack_at('>I7I7I7I7', marks, from)
    if has_marks then n, first_mark, second, gap = unpack_at('>I7I7I7I7', entry, numbers_at(i)) end
    if undoes and n > 0 then undo_charge(charge, i, n, at, first_mark, second, gap) end
  end
  -- Behind them is noted what is held.
  from = from + 14 + 14 * limits
  if undoes and charge.found or charge.tidied and not charge.translated then save(charge) end
end
if NOTE then call('DEL', NOTE) end
return {now, {}}
