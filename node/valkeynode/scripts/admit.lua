-- admit: raise the registers to what the other nodes know, and mark this run of
-- the server as admitted. Sent by EVAL: it must run where no script is loaded.
--
-- The run id is read here, not taken from the client: the client may have been
-- paused, and the server restarted, since the client looked.
--
-- KEYS[1]    the registers
-- ARGV[1]    run id for which the client decided
-- ARGV[2]    longest lease of the group, in milliseconds
-- ARGV[3]    1 if every write is on disk before it is answered, else 0
-- ARGV[4..]  pairs: stripe, register
--
-- Returns "admitted", or "restarted" if this is another run: then nothing changed.
if not string.find(redis.call('INFO', 'server'), 'run_id:' .. ARGV[1], 1, true) then
  return 'restarted'
end
for i = 4, #ARGV, 2 do
  local known = tonumber(redis.call('HGET', KEYS[1], ARGV[i])) or 0
  if tonumber(ARGV[i + 1]) > known then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
redis.call('HSET', KEYS[1], 'run', ARGV[1], 'maxttl', ARGV[2], 'durable', ARGV[3])
redis.call('HDEL', KEYS[1], 'noticed')
return 'admitted'
