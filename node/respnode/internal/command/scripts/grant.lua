-- grant: lease the name, or return why not. This file is put where an operation says --@grant,
-- after KEYS and ARGV, those of acquire, after mark[3], the group's longest lease, and after
-- register. What follows it has number, the promise, and text, the same.
if ARGV[2] ~= mark[3] and tonumber(ARGV[2]) > tonumber(mark[3]) then
  return 'maxttl ' .. mark[3]
end
--@register
--@promise
local lease, queue, waiter, stamp = KEYS[1], KEYS[3], ARGV[6], ARGV[7]
-- Before anything is changed: a queue that cannot be read must leave no lease.
local waiting = redis.call('ZCARD', queue)
local value = ARGV[1] .. ' ' .. text
local granted = redis.call('SET', lease, value, 'NX', 'PX', ARGV[2])
local holder
if not granted or waiting > 0 then
  --@queue
  if granted then
    -- The name is free, but others may be first. A reservation replaces the lease that
    -- was just set. If no waiter is notified, the asker was taken out of the queue.
    enqueue(queue, waiter, stamp)
    granted = not notify(lease, queue, waiter)
    holder = granted or redis.call('GET', lease)
  else
    holder = redis.call('GET', lease)
    if waiter and holder == reserved(waiter) then
      -- It is reserved for the asker, who may be in the queue again since.
      granted = redis.call('SET', lease, value, 'PX', ARGV[2])
      redis.call('ZREM', queue, waiter)
    else
      enqueue(queue, waiter, stamp)
    end
  end
end
if not granted then
  local ahead = waiter and redis.call('ZRANK', queue, waiter) or redis.call('ZCARD', queue)
  local time = redis.call('TIME')
  -- Another program's value may have any length.
  return {holder and string.sub(holder, 1, 1024), redis.call('PTTL', lease), ahead, time[1] * 1000000 + time[2]}
end
