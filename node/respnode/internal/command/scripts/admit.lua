-- admit: raise the registers to what the other nodes know, and mark the server
-- as admitted. Sent by EVAL: it must run where no script is loaded.
--
-- The client that decided may have been paused since it looked at the server.
-- So the replication id, which a restart changes, and the candidate, which a
-- flush removes, must still be those that it saw.
--
-- KEYS[1]    the registers
-- ARGV[1]    replication id
-- ARGV[2]    candidate
-- ARGV[3]    longest lease of the group, in milliseconds
-- ARGV[4]    1 if every write is on disk before it is answered, else 0
-- ARGV[5]    replication ids of the servers that were found without memory when
--            a majority had lost it, separated by spaces; else empty
-- ARGV[6]    the nodes of the group, as recorded or else as the client names them
-- ARGV[7]    the mark that was found; empty: there was none
-- ARGV[8]    the new mark: the replication id, and how many replicas there are
-- ARGV[9..]  pairs: stripe, register
--
-- Returns "admitted"; else nothing was done: "changed", or "format N" if the registers
-- have a newer format than the one that is written here. It is the number of all
-- that is on a server: keys, their types, and what they mean. Format 1, or none, is
-- what was written before leases had an origin: such a lease is a stranger's. In format 2
-- leases had no token and waiters no label; that is as good.
if not string.find(redis.call('INFO', 'replication'), 'master_replid:' .. ARGV[1] .. '\r\n', 1, true) or
    redis.call('HGET', KEYS[1], 'candidate') ~= ARGV[2] then
  return 'changed'
end
-- Another client may have been first, or have recorded other terms meanwhile.
local found = redis.call('HMGET', KEYS[1], 'admitted', 'maxttl', 'members')
if (found[1] or '') ~= ARGV[7] or found[2] and found[2] ~= ARGV[3] or found[3] and found[3] ~= ARGV[6] then
  return 'changed'
end
local format = redis.call('HGET', KEYS[1], 'format') or '1'
if format ~= '1' and format ~= '2' and format ~= '3' then
  return 'format ' .. format
end
-- First: a full server writes the little that follows after a command that frees memory.
redis.call('HDEL', KEYS[1], 'noticed', 'replicas')
for i = 9, #ARGV, 2 do
  local known = redis.call('HGET', KEYS[1], ARGV[i])
  if not known or not string.find(known, '^%d+$') or tonumber(ARGV[i + 1]) > tonumber(known) then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
redis.call('HSET', KEYS[1], 'admitted', ARGV[8], 'maxttl', ARGV[3], 'durable', ARGV[4], 'empty', ARGV[5], 'format', '3')
redis.call('HSETNX', KEYS[1], 'members', ARGV[6])
-- Whose number of replicas it is: see notice.lua.
redis.call('HSET', KEYS[1], 'primary', string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or '')
return 'admitted'
