-- acquire: lease a name, and promise a number larger than every one before.
--
-- KEYS[1]  the lease: a string with a time to live, the holder, a space, and the
--          lease's origin: the register when it was created. A slash and the
--          holder's token follow once that has told it; they decide nothing. Several
--          who share the name have one together (shared.lua)
-- KEYS[2]  the registers: a hash; its field "admitted" is the mark of admission,
--          the replication id that the server had when it was admitted
-- KEYS[3]  the waiter queue of the name
-- ARGV[1]  holder
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  stripe, the field of the register
-- ARGV[4]  proposal
-- ARGV[5]  the replication id, if the client checks it; else empty
-- ARGV[6]  the waiter that asks, if it is one
-- ARGV[7]  its stamp
--
-- Returns the number promised; {holder or false, remaining ms, waiters ahead,
-- the server's clock in microseconds} if leased already; "rejoining" if the
-- server is not admitted; "maxttl N" if the lease would be longer than the
-- group's longest, N ms.
local mark = redis.call('HMGET', KEYS[2], 'admitted', 'format', 'maxttl', ARGV[3])
local known = ARGV[5]
--@admitted
if tonumber(ARGV[2]) > tonumber(mark[3]) then
  return 'maxttl ' .. mark[3]
end
local register = mark[4] or '0'
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
    -- was just set. Where nobody is notified, the asker was taken out of the queue.
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
  -- Somebody else's value may have any length.
  return {holder and string.sub(holder, 1, 1024), redis.call('PTTL', lease), ahead, time[1] * 1000000 + time[2]}
end
redis.call('HSET', KEYS[2], ARGV[3], text)
return number
