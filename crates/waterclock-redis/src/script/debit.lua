
local charges, question = read_charges((unpack_at('>I2', text())))
return {now, question or adjust(charges)}
