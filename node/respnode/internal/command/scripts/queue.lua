-- queue: the waiters for a name, in order. This file is put where an operation says
-- --@queue, which is where it may change one. The rules are package rule's.
--
-- The queue is a sorted set: a waiter is "CLIENT:NUMBER:LABEL", 32 hexadecimal digits,
-- decimal ones, of which the first is 0 if it wants to share the name, and, if it has one, a
-- text for people. Its score is its stamp. Equal stamps are in the order of
-- the waiters' bytes, here as there.

-- reserved: the holder of a lease that reserves a name for a waiter.
local function reserved(waiter)
  return 'next:' .. waiter
end

-- givenTo: what the holder of a lease begins with that was given to a waiter.
local function givenTo(waiter)
  return string.sub(waiter, 1, 32) .. '#' .. string.match(waiter, '^%d+', 34) .. '#'
end

-- givesBack: whether a waiter whose wait is over gives a lease back that was given to it, which it
-- may not have heard. As the holder with the number 0 it only leaves the queue.
local function givesBack(value, waiter, holder)
  local given = givenTo(waiter)
  return string.sub(value, 1, #given) == given and string.sub(holder, 1, #given + 2) ~= given .. '0:'
end

-- enqueue: put a waiter into the queue, once, and keep the queue for another 15 s.
-- A full queue takes no waiter.
local function enqueue(queue, waiter, stamp)
  if not waiter then
    return
  end
  if redis.call('ZCARD', queue) < 10000 then
    redis.call('ZADD', queue, 'NX', stamp, waiter)
  end
  redis.call('PEXPIRE', queue, 15000)
end

-- shares: whether a waiter wants to share the name.
local function shares(waiter)
  return string.sub(waiter, 34, 34) == '0'
end

-- reachable: whether a waiter can be told something now, and on which channel. What
-- PUBLISH returns includes clients that listen to patterns: a monitor.
local function reachable(waiter)
  local channel = 'fenlock-wake:' .. string.sub(waiter, 1, 32)
  return redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0, channel
end

-- notify: take the first reachable waiter out of the queue, tell it, and reserve the name for
-- it for 1 s, and for the readers that come next. The name has no holder. An unreachable waiter
-- is gone, and is dropped. It stops at self, which need not be told. With give, a function, the
-- name is given to a waiter that wants it alone, if that returns true. Returns whether a waiter
-- was notified, and self's stamp if that was taken out of the queue.
local function notify(lease, queue, self, give)
  while true do
    local first = redis.call('ZPOPMIN', queue)
    local waiter, stamp = first[1], first[2]
    if not waiter or waiter == self then
      return false, stamp
    end
    local up, channel = reachable(waiter)
    if up and shares(waiter) then
      --@shared
      --@call
      local s = { epoch = '0' }
      tell(s, waiter, channel)
      call(s, queue, self)
      write(lease, s)
      return true
    elseif up then
      if not give or give(waiter, channel) ~= true then
        redis.call('PUBLISH', channel, string.match(waiter, '^%d+', 34))
        redis.call('SET', lease, reserved(waiter), 'PX', 1000)
      end
      return true
    end
  end
end
