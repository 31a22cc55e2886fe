
-- Takes entries off what is due of keys (`due.lua`): what was charged stands. KEYS: of each key the record, and what is due
-- of it. ARGV: the id of the entries. Replies of each key whether it was there.
local call, sub, find = redis.call, string.sub, string.find
local id, reply = ARGV[3], {now}
for i = 1, #KEYS / 2 do
  local record, due_key = KEYS[2 * i - 1], KEYS[2 * i]
  local due, from = call('GET', due_key) or '', 0
  local size = due == '' and 1 or 24 + 28 * string.byte(due, 17)
  repeat from = find(due, id, from + 1, true) until not from or (from - 8) % size == 0
  reply[i + 1] = from and 1 or 0
  if from then
    due = sub(due, 1, from - 8) .. sub(due, from - 7 + size)
    local next_due, last_due = 0, 0
    if due == '' then
      call('DEL', due_key)
    else
      call('SET', due_key, due, 'KEEPTTL')
      next_due, last_due = struct.unpack('>I7', due), struct.unpack('>I7', due, #due - size + 1)
    end
    -- Behind what stands before the state (`records.lua`).
    local at, head = 0, call('GETRANGE', record, 0, 2)
    for byte = 4, 5 do
      if string.byte(head) == byte then
        at = at + 3 + struct.unpack('>I2', head, 2)
        head = call('GETRANGE', record, at, at + 2)
      end
    end
    if string.byte(head) == 2 then
      call('SETRANGE', record, at + 4, struct.pack('>I7I7', next_due, last_due))
    else
      local whole = call('GET', record) or ''
      local plain = string.match(sub(whole, at + 1), '^([%d ]+)%+')
      local instants = next_due > 0 and string.format('+%.0f+%.0f', next_due, last_due) or ''
      if plain then call('SET', record, sub(whole, 1, at) .. plain .. instants, 'KEEPTTL') end
    end
  end
end
return reply
