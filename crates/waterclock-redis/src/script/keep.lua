
-- Something is held: all of it, or of a single charge what fits.
local first = charges[1]
if not refused or (count == 1 and first.mode == 'nary' and first.grants > 0) then
  local numbers = {}
  local function put(value) numbers[#numbers + 1] = struct.pack('>I7', value) end
  for _, charge in ipairs(charges) do
    put(now)
    put(charge.shadow and charge.cost or charge.grants)
    for _, limit in ipairs(charge.limits) do
      -- A shadow limit that said no holds nothing, whatever becomes of it.
      put((limit.held > 0 or limit.cost == 0) and limit.held or NOTHING)
      put(limit.numbers.ends or 0)
    end
  end
  local head = struct.pack('>I7I7', held_until, #numbers)
  redis.call('SET', RESERVATION, head .. table.concat(numbers) .. about, 'PX', net or kept_for_ms)
end
