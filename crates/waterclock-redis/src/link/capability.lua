#!lua flags=allow-oom
-- Whether this server can run the scripts, on a primary, and which commands they need that the user may not run.
-- ARGV: a key of a record, a key of a policy's definitions, then the commands that the store sends besides scripts.
-- Replies 1, then the names of those commands.
local reply = {1}
local function need(...)
  -- A server that cannot tell says so when the command is run.
  if redis.acl_check_cmd and not redis.acl_check_cmd(...) then reply[#reply + 1] = (...) end
end

need('TIME')
for i = 1, 2 do
  need('GET', ARGV[i])
  need('SET', ARGV[i], '0', 'PX', '1')
end
need('MGET', ARGV[1])
need('DEL', ARGV[1])
need('GETRANGE', ARGV[1], '0', '1')
need('SETRANGE', ARGV[1], '0', '1')
need('PEXPIRE', ARGV[1], '1')
need('PERSIST', ARGV[1])
need('HGET', ARGV[2], '0')
need('HSET', ARGV[2], '0', '0')
need('HDEL', ARGV[2], '0')
need('HKEYS', ARGV[2])
for i = 3, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do words[#words + 1] = word end
  need(unpack(words))
end
if #reply > 1 then return reply end

assert(struct.unpack('>I7', struct.pack('>I7', redis.call('TIME')[1])) > 0)
return reply
