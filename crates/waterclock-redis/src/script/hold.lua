
-- What is charged is held, for so long; the reservation is kept elsewhere.
held_until = now + number()
