
-- How something ended that was admitted, so many times. Only breakers care.
local MOST_REPORTS, ERRORS = 65536, 4294967296 -- 2^32

-- At which of the next reports a breaker opens: each adds so much to the reports and to the errors among them.
local function opens_at(p, reports, errors, more_reports, more_errors)
  local at = max(1, more_reports > 0 and p.min_samples - reports or 1)
  if reports + at * more_reports < p.min_samples then return EXACT end
  local slope = 10000 * more_errors - p.threshold * more_reports
  local missing = p.threshold * reports - 10000 * errors - at * slope
  if missing <= 0 then return at end
  return slope > 0 and at + math.ceil(missing / slope) or EXACT
end

-- Logs reports of a closed breaker, and opens it at the one that is one too many. Equal ones are logged together; out
-- of a full log they push the oldest, one entry after the other.
local function log_reports(p, s, is_error, times)
  if s.stale then redate_reports(s) else load_last(s) end
  local over = 0
  walk(s, function(_, at, size)
    if now - at < p.per then return true end
    s.total, over = s.total - size, over + 1
  end)
  drop(s, over)
  local one, left = is_error and ERRORS + 1 or 1, min(times, MOST_REPORTS)
  while left > 0 do
    local reports = s.total % ERRORS
    local n, old = min(left, MOST_REPORTS - reports), 0
    if n == 0 then
      local _, size = entry(s, 0)
      n, old = min(left, size % ERRORS), size >= ERRORS and ERRORS + 1 or 1
    end
    local more_errors = (is_error and 1 or 0) - (old > 1 and 1 or 0)
    if opens_at(p, reports, (s.total - reports) / ERRORS, old == 0 and 1 or 0, more_errors) <= n then
      drop(s, s.count)
      s.total, s.since, s.probes = 0, now + 1, 0
      return
    end
    if s.count > 0 and s.at == now and (s.last >= ERRORS) == is_error then
      set_last(s, now, s.last + n * one)
    else
      append(s, now, n * one)
    end
    if old > 0 then
      local at, size = entry(s, 0)
      if size > n * old then set_entry(s, 0, at, size - n * old) else drop(s, 1) end
    end
    s.total, left = s.total + n * (one - old), left - n
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
