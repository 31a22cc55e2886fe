
-- error-rate: a log of reports (instant, how many and 2^32 times how many errors), oldest first, and the instant
-- of the newest; one more than the instant since when it is tripped, 0 for not; whether it probes. A check
-- does not look at the log.
local breaker = {}
algorithms.b = breaker
function breaker.numbers(spec, from)
  local p = {}
  p.threshold, p.per, p.min_samples, p.cool_down, from = unpack_at('>I7I7I7I7', spec, from)
  return p, from
end
function breaker.read(_, found, from, charge)
  local total, newest, tripped, probes, count, head, cap = 0, 0, 0, 0, 0, 0, 0
  if found then
    total, newest, tripped, probes, count, head, cap, from = unpack_at('>I7I7I7BI4I4I4', found, from)
  end
  local s = new_ring(charge, cap)
  s.total, s.newest, s.since, s.probes, s.count, s.head = total, newest, tripped, probes, count, head
  return s, from
end
-- Reports from after now are reports of now.
local function redate_reports(s)
  if not s.stale then return end
  s.stale = false
  if s.count > 0 then load_last(s) end
  for i = first(s, function(at) return at > now end), s.count - 1 do
    local _, size = entry(s, i)
    set_entry(s, i, now, size)
  end
end
function breaker.write(_, s)
  redate_reports(s)
  return pack('>I7I7I7BI4I4I4', s.total, s.newest, s.since, s.probes, s.count, s.head, s.cap)
end
function breaker.arrive(p, s)
  local redated = s.since > now + 1
  if redated then s.since = now + 1 end
  if s.since > 0 and now - (s.since - 1) >= p.cool_down + p.per then s.since, s.probes = 0, 0 end
  if s.newest > now then s.newest, s.stale, redated = now, true, true end
  return redated
end
function breaker.room(p, s)
  return s.since > 0 and now - (s.since - 1) < p.cool_down and 0 or EXACT
end
-- The first admitted check after the cool-down is the probe.
function breaker.charge(_, s)
  s.before = s.since
  if s.since > 0 then s.since, s.probes = now + 1, 1 end
end
function breaker.refund() end
function breaker.reset(p, s)
  if s.since > 0 then return s.since - 1 + p.cool_down + p.per - now end
  return s.count == 0 and 0 or s.newest + p.per - now
end
function breaker.tell(p, s)
  local told = pack('>I7', 0)
  if s.count > 0 and now - s.newest < p.per then told = pack('>I7I7I7', 1, s.newest, 1) end
  return told .. pack('>I7I7', s.since, s.probes)
end
-- later
function breaker.debit() end
function breaker.give_back() end
function breaker.mark(_, s, n) return n, s.since, s.before or 0 end
-- The probe did not go out.
function breaker.undo(_, s, _, _, probing, before)
  if s.probes == 1 and s.since == probing and before > 0 then s.since, s.probes = before, 0 end
end
