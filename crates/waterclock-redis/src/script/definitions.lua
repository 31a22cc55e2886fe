#!lua
-- The definitions of a policy, as register.lua keeps them.
return {redis.call('GET', KEYS[1])}
