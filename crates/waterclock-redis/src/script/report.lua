
-- How something ended that was admitted, so many times. Only breakers care.
local MOST_REPORTS, ERRORS = 65536, 4294967296 -- 2^32

-- Logs reports of a closed breaker, and opens it at the one that is one too many.
local function log_reports(p, s, is_error, times)
  if s.stale then redate_reports(s) else load_last(s) end
  local over = 0
  walk(s, function(_, at, size)
    if now - at < p.per then return true end
    s.total, over = s.total - size, over + 1
  end)
  drop(s, over)
  local one = is_error and ERRORS + 1 or 1
  for _ = 1, min(times, MOST_REPORTS) do
    if s.count > 0 and s.at == now and (s.last >= ERRORS) == is_error then
      set_last(s, now, s.last + one)
    else
      append(s, now, one)
    end
    s.total = s.total + one
    if s.total % ERRORS > MOST_REPORTS then
      -- The oldest is forgotten.
      local at, size = entry(s, 0)
      local old = size >= ERRORS and ERRORS + 1 or 1
      s.total = s.total - old
      if size > old then set_entry(s, 0, at, size - old) else drop(s, 1) end
    end
    local reports = s.total % ERRORS
    if reports >= p.min_samples and (s.total - reports) / ERRORS * 10000 >= p.threshold * reports then
      drop(s, s.count)
      s.total, s.since, s.probes = 0, now + 1, 0
      return
    end
  end
  s.newest = now
end

local count, outcome = unpack_at('>I2c1', text())
local is_error = outcome == 'e'
local charges, question = read_charges(count)
if question then return {now, question} end
local states = {}
for i, charge in ipairs(charges) do
  local cares = charge.tidied and not charge.translated
  for _, limit in ipairs(charge.limits) do
    if limit.does == breaker and limit.cost > 0 then
      local p, s = limit.numbers, limit.state
      cares = true
      if s.since == 0 then
        log_reports(p, s, is_error, limit.cost)
      elseif s.probes == 1 and now - (s.since - 1) < p.cool_down then
        -- One report for one probe: the others are of the time before it.
        s.since, s.probes = is_error and now + 1 or 0, 0
      end
    end
  end
  if cares then save(charge) end
  states[i] = told(charge)
end
return {now, states}
