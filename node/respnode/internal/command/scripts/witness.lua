-- witness: record in the mark of admission how many replicas there are that may be promoted. Sent by
-- EVAL, since it is rare.
--
-- KEYS[1]  the registers
-- ARGV[1]  replication id
-- ARGV[2]  the mark that was found
-- ARGV[3]  the new mark
--
-- Returns "noticed"; else nothing was done: "changed".
local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master\r\n', 1, true) or
    not string.find(info, 'master_replid:' .. ARGV[1] .. '\r\n', 1, true) or
    redis.call('HGET', KEYS[1], 'admitted') ~= ARGV[2] then
  return 'changed'
end
redis.call('HSET', KEYS[1], 'admitted', ARGV[3], 'primary', string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or '')
return 'noticed'
