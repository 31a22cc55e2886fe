
-- a·b/c for a < 2^53 and b <= c: quotient and remainder.
local function muldiv(a, b, c)
  local product = a * b
  if product < EXACT then
    local rest = fmod(product, c)
    return (product - rest) / c, rest
  end
  local quotient, rest, bit = 0, 0, EXACT / 2
  while bit >= 1 do
    quotient = quotient + quotient
    if rest >= c - rest then
      rest, quotient = rest - (c - rest), quotient + 1
    else
      rest = rest + rest
    end
    if a >= bit then
      a = a - bit
      if rest >= c - b then
        rest, quotient = rest - (c - b), quotient + 1
      else
        rest = rest + b
      end
    end
    bit = bit / 2
  end
  return quotient, rest
end

local function muldiv_up(a, b, c)
  local quotient, rest = muldiv(a, b, c)
  return rest > 0 and quotient + 1 or quotient
end
