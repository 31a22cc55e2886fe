
-- Of each limit of each charge: how much is owed, or how much is given back of what was charged at some
-- instant, and the latest that a window may close in which that still counts. Of charges that may be listed by an id to
-- be given back, the same numbers follow for those that are not: it may have been done already (`due.lua`).
local function adjust(charges, id)
  local states = {}
  for i, charge in ipairs(charges) do
    local numbers, from = text(), 1
    if id then
      local unlisted = text()
      if not (charge.due_key and drop_due(charge, id)) then numbers = unlisted end
    end
    local changes = charge.due_changed or charge.tidied
    for _, limit in ipairs(charge.limits) do
      local owed, back, at, last
      owed, back, at, last, from = unpack_at('>I7I7I7I7', numbers, from)
      changes = changes or owed > 0 or back > 0
      if owed > 0 then limit.does.debit(limit.numbers, limit.state, owed) end
      if back > 0 then limit.does.give_back(limit.numbers, limit.state, back, at, last) end
    end
    if changes then save(charge) end
    states[i] = told(charge)
  end
  return states
end
