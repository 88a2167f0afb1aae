-- unmark: remove a mark of admission that belongs to an earlier run of the
-- server. Sent by EVAL in the transaction that loads the scripts, before them:
-- so wherever the scripts are loaded, a mark is this run's own. Without it, a
-- client that was paused in mid-admission could load the scripts on a server
-- that has restarted since, from a file in which the old mark survived.
--
-- KEYS[1]  the registers
--
-- Returns 1 if a mark of this run is there, else 0.
local mark = redis.call('HGET', KEYS[1], 'run')
if not mark then
  return 0
end
if string.find(redis.call('INFO', 'server'), 'run_id:' .. mark, 1, true) then
  return 1
end
redis.call('HDEL', KEYS[1], 'run')
return 0
