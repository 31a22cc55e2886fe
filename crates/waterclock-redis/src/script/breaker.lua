
-- error-rate: a log of reports (instant, how many and 2^32 times how many errors), packed; 14 bytes each,
-- oldest first. One more than the instant since when it is tripped, 0 for not; whether it probes.
local breaker = {}
algorithms.b = breaker
function breaker.numbers()
  return {threshold = number(), per = number(), min_samples = number(), cool_down = number()}
end
function breaker.read(p, take, bytes)
  local s = rolling.read(p, take, bytes)
  s.since, s.probes = take(), take()
  return s
end
function breaker.write(p, s, put, raw) rolling.write(p, s, put, raw) put(s.since) put(s.probes) end
function breaker.arrive(p, s)
  local redated = s.since > now + 1
  if redated then s.since = now + 1 end
  if s.since > 0 and now - (s.since - 1) >= p.cool_down + p.per then s.since, s.probes = 0, 0 end
  local upto = #s.log
  while upto > 0 and entry(s.log, upto - 13) > now do upto = upto - 14 end
  if upto < #s.log then
    local pieces = {string.sub(s.log, 1, upto)}
    for from = upto + 1, #s.log, 14 do
      local _, size = entry(s.log, from)
      pieces[#pieces + 1] = struct.pack('>I7I7', now, size)
    end
    s.log, redated = table.concat(pieces), true
  end
  local from = 1
  while from < #s.log do
    local at, size = entry(s.log, from)
    if now - at < p.per then break end
    s.total, from = s.total - size, from + 14
  end
  if from > 1 then s.log = string.sub(s.log, from) end
  return redated
end
function breaker.room(p, s)
  return s.since > 0 and now - (s.since - 1) < p.cool_down and 0 or EXACT
end
-- The first admitted check after the cool-down is the probe.
function breaker.charge(_, s)
  if s.since > 0 then s.since, s.probes = now + 1, 1 end
end
function breaker.refund() end
function breaker.reset(p, s)
  if s.since > 0 then return s.since - 1 + p.cool_down + p.per - now end
  return #s.log == 0 and 0 or (entry(s.log, #s.log - 13)) + p.per - now
end
