
-- Many independent checks of policies that are one whole-microsecond gcra limit: most are. The
-- record is one integer, the instant at which the key is full again, and three digits that say by which
-- definition it was written; where that is further off than a full bucket, because units were debited, the
-- instant of the last write stands behind it, and then what is due.
-- ARGV: how many of the first KEYS differ from each other; then for each run of KEYS the time its cost takes, the
-- depth of a full bucket, the three digits, and its length.
-- Replies the instant and what was found under each key; the numbers of a decision follow from that. A record
-- that another definition wrote, or of which something is due, is replied in an array, undecided.
local call, pcall = redis.call, redis.pcall
local ceil, match, format, sub = math.ceil, string.match, string.format, string.sub
local reply, at, differ = {now}, 0, tonumber(ARGV[3])
-- Read at once, which takes half as long; but not while a cluster moves their slot.
local records = differ > 1 and pcall('MGET', unpack(KEYS, 1, differ))
if not records or records.err then differ = 0 end
for i = 4, #ARGV, 4 do
  local span, latest, tag = tonumber(ARGV[i]), now + tonumber(ARGV[i + 1]), ARGV[i + 2]
  for _ = 1, tonumber(ARGV[i + 3]) do
    at = at + 1
    local key = KEYS[at]
    local found
    if at <= differ then found = records[at] else found = pcall('GET', key) end
    local full_at, due, kept_until = now, '', 0
    if found then
      -- Most records: 16 digits, an instant between 2001 and 2286, and the tag.
      full_at = #found == 19 and sub(found, -3) == tag and tonumber(sub(found, 1, -4))
      if not (full_at and full_at >= 1e15 and full_at < 1e16) then
        local text, by, written, next_due = type(found) == 'string' and found or '', nil, nil, nil
        full_at, by = match(text, '^(%d+)(%d%d%d)$')
        if not full_at then
          -- A debt, whose last write stands behind it, or something is due (`records.lua`).
          full_at, by, written, due, next_due, kept_until = match(text, '^(%d+)(%d%d%d) ?(%d*)(%+?(%d*)%+?(%d*))$')
          written, next_due, kept_until = tonumber(written), tonumber(next_due), tonumber(kept_until) or 0
        end
        if not full_at then
          local first = string.byte(text)
          local packed = first and first < 6
          found = packed and {found} or type(found) == 'table' and found or {err = 'WATERCLOCK a record that is not ours'}
        elseif by ~= tag or next_due and now >= next_due then
          full_at, found = nil, {found}
        else
          full_at = tonumber(full_at)
          if written then
            -- However deep a debt is, it is real; a clock that stepped back shows by when it was written.
            local ahead = written - now
            if ahead > 0 then
              full_at = math.max(0, full_at - ahead)
              local ttl = math.max(1, ceil((math.max(full_at, kept_until) - now) / 1000))
              call('SET', key, format('%.0f%s %.0f%s', full_at, tag, now, due), 'PX', net or format('%.0f', ttl))
            end
            if full_at > latest then full_at = nil end
          end
        end
      end
    end
    reply[at + 1] = found
    if full_at then
      -- A record later than any written now: the clock stepped back. What was used stays used.
      local redated = full_at > latest
      if redated then full_at = latest elseif full_at < now then full_at = now end
      if full_at + span <= latest then
        full_at, redated = full_at + span, true
      end
      if redated then
        -- Formatted here because Redis 7.0 would print a number as a double, which takes longer.
        local text = format('%d', full_at)
        local record = text .. tag .. due
        if net then
          call('SET', key, record, 'PX', net)
        else
          -- A key is there until the millisecond is over in which it expires: its digits are those of the record. But
          -- Valkey does not keep one that expires within this millisecond.
          local ends = kept_until > full_at and kept_until or full_at
          local last = sub(ends - now < 1000 and format('%d', ends + 1000) or ends == full_at and text or format('%d', ends), 1, -4)
          if found then
            call('SET', key, record, 'PXAT', last)
          elseif not call('SET', key, record, 'PXAT', last, 'NX') then
            -- There is something that MGET does not read.
            reply[at + 1] = pcall('GET', key)
          end
        end
      end
    end
  end
end
return reply
