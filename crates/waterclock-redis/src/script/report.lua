
-- How something ended that was admitted, so many times. Only breakers care.
local MOST_REPORTS, ERRORS = 65536, 4294967296 -- 2^32

-- Logs reports of a closed breaker, and opens it at the one that is one too many. The log is put together
-- at the end: meanwhile its last entry, what is left of its first, and where that is are kept apart.
local function log_reports(p, s, is_error, times)
  local one, last = is_error and ERRORS + 1 or 1, 0
  if s.log ~= '' then
    local at, size = entry(s.log, #s.log - 13)
    if at == now and (size >= ERRORS) == is_error then
      last, s.log = size, string.sub(s.log, 1, #s.log - 14)
    end
  end
  local from, first = 1, nil
  for _ = 1, min(times, MOST_REPORTS) do
    last, s.total = last + one, s.total + one
    if s.total % ERRORS > MOST_REPORTS then
      -- The oldest is forgotten.
      local old = one
      if from < #s.log then
        local _, size = entry(s.log, from)
        size = first or size
        old = size >= ERRORS and ERRORS + 1 or 1
        first = size > old and size - old or nil
        if not first then from = from + 14 end
      else
        last = last - one
      end
      s.total = s.total - old
    end
    local reports = s.total % ERRORS
    if reports >= p.min_samples and (s.total - reports) / ERRORS * 10000 >= p.threshold * reports then
      s.log, s.total, s.since, s.probes = '', 0, now + 1, 0
      return
    end
  end
  local head = ''
  if first then
    head = struct.pack('>I7I7', (entry(s.log, from)), first)
    from = from + 14
  end
  s.log = head .. string.sub(s.log, from) .. (last > 0 and struct.pack('>I7I7', now, last) or '')
end

local is_error = text() == 'error'
for _, charge in ipairs(charges) do
  local cares = false
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
end
