
for _, charge in ipairs(charges) do
  if charge.cost > 0 then
    for _, limit in ipairs(charge.limits) do
      limit.does.debit(limit.numbers, limit.state, charge.cost)
    end
    save(charge)
  end
end
return reply
