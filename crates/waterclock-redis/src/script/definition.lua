#!lua
-- A registered definition of a policy: the second until which it is kept, and its text. ARGV: its tag.
return {redis.call('HGET', KEYS[1], ARGV[1])}
