
-- What is given back when its time is over, unless somebody settles or confirms it before: a list under a key
-- beside the record. Its entries are equally long, the soonest first: when its time is over; an id; how it is given
-- back; how many limits there are; when it was charged; and four numbers of each limit. The record names the first and the last of these times: a
-- script that finds none of them over leaves the list alone. A list that no record names is none.
local MOST_DUE = 256
local function entry_size(charge) return 24 + 28 * #charge.limits end
-- Where the four numbers of a limit begin in an entry, and how the entry is given back.
local function numbers_at(i) return 25 + 28 * (i - 1) end
local function how_of(entry) return sub(entry, 16, 16) end
local function set_due(charge, due)
  charge.due, charge.due_changed, charge.next_due, charge.last_due = due, true, nil, nil
  if due == '' then return end
  charge.next_due = unpack_at('>I7', due)
  charge.last_due = unpack_at('>I7', due, #due - entry_size(charge) + 1)
end

-- Undoes the charge of one limit. Where units drain in the order in which they came, other charges that may be
-- undone move up: or their marks would claim what has drained since. (Marks of charges beyond the list's bound
-- stay as they are.)
local function undo_charge(charge, i, n, at, first_mark, second, gap)
  local limit, size = charge.limits[i], entry_size(charge)
  local moved = limit.does.undo(limit.numbers, limit.state, n, at, first_mark, second)
  if limit.gap then interval.undo(limit.gap, limit.last, n, at, gap) end
  if not moved or not charge.due or charge.due == '' then return end
  local entries = {}
  for from = 1, #charge.due, size do
    local entry, marks = sub(charge.due, from, from + size - 1), numbers_at(i) + 7
    if how_of(entry) ~= RELEASE then
      local first_behind, second_behind = moved(unpack_at('>I7I7', entry, marks))
      entry = sub(entry, 1, marks - 1) .. pack('>I7I7', first_behind, second_behind) .. sub(entry, marks + 14)
    end
    entries[#entries + 1] = entry
  end
  set_due(charge, table.concat(entries))
end

-- Gives back what an entry still holds: units where they were charged, as settling would; or a charge that nobody
-- stands by, which is undone.
local function give_back(charge, from)
  local due, how, at, _ = charge.due, nil, nil, nil
  how, _, at, from = unpack_at('>c1BI7', due, from + 15)
  for i, limit in ipairs(charge.limits) do
    local n, first_mark, second, gap
    n, first_mark, second, gap, from = unpack_at('>I7I7I7I7', due, from)
    if n > 0 and how == RELEASE then
      limit.does.give_back(limit.numbers, limit.state, n, at, first_mark)
    elseif n > 0 then
      undo_charge(charge, i, n, at, first_mark, second, gap)
    end
  end
end

-- Reads the list, and gives back what is over by now. It comes to the same as if it had been done at its time.
function give_back_due(charge)
  local noted, size = charge.next_due, entry_size(charge)
  set_due(charge, charge.due or noted and call('GET', charge.due_key) or '')
  charge.due_changed = charge.translated
  local from = 1
  if fmod(#charge.due, size) > 0 then error(NOT_OURS) end
  while from <= #charge.due and now >= unpack_at('>I7', charge.due, from) do
    give_back(charge, from)
    from = from + size
  end
  if from > 1 then
    set_due(charge, sub(charge.due, from))
    -- What is fresh now starts now.
    for _, limit in ipairs(charge.limits) do limit.does.arrive(limit.numbers, limit.state) end
  end
  if from > 1 or noted ~= charge.next_due then
    charge.tidied = true
    charge.found = encode(charge)
  end
end

-- Notes what was charged. If there are too many already, a charge to be undone does without.
function hold_due(charge)
  local marks, holds, size = {}, false, entry_size(charge)
  for i, limit in ipairs(charge.limits) do
    local n, first_mark, second, gap = limit.charged, 0, 0, 0
    if holding.how ~= RELEASE and n > 0 then
      n, first_mark, second = limit.does.mark(limit.numbers, limit.state, n)
      gap = limit.gap and limit.last.welcome or 0
    elseif limit.numbers.ends then
      -- A lease ends by itself.
      n = 0
    elseif n > 0 then
      first_mark = limit.state.closes or 0
    end
    holds = holds or n > 0
    marks[i] = pack('>I7I7I7I7', n, first_mark, second, gap)
  end
  local due = charge.due
  if not holds or #due >= MOST_DUE * size then return false end
  local entry = pack('>I7', holding.over) .. holding.id .. holding.how .. pack('>BI7', #marks, now)
    .. table.concat(marks)
  local at = #due + 1
  while at > 1 and unpack_at('>I7', due, at - size) > holding.over do at = at - size end
  set_due(charge, sub(due, 1, at - 1) .. entry .. sub(due, at))
  return true
end

-- The first charge of which no more can be noted.
local function full_due(charges)
  for i, charge in ipairs(charges) do
    if charge.due_key and #charge.due >= MOST_DUE * entry_size(charge) then return i end
  end
end

-- Takes an entry off the list and returns it; nil if it is not there.
local function drop_due(charge, id)
  local due, size, from = charge.due, entry_size(charge), 0
  repeat from = string.find(due, id, from + 1, true) until not from or fmod(from - 8, size) == 0
  if not from then return end
  set_due(charge, sub(due, 1, from - 8) .. sub(due, from - 7 + size))
  return sub(due, from - 7, from - 8 + size)
end

-- Kept for longer than the record, which may be the next to be written by a script that does not touch this.
function write_due(charge, ttl)
  if charge.due == '' then return call('DEL', charge.due_key) end
  call('SET', charge.due_key, charge.due, 'PX', net or ttl + 3600000)
end
