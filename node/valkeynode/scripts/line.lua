-- line: who waits for a name, in order. This file is put where an operation says
-- --@line, which is where it may change one. What it does is the package rule's, in line.go.
--
-- The line is a sorted set: a waiter is "CLIENT:NUMBER", 32 hexadecimal digits
-- and decimal ones, its score is its stamp. Equal stamps are in the order of
-- the waiters' bytes, here as there.

-- reserved: the holder of a lease that keeps a name for a waiter.
local function reserved(waiter)
  return 'next:' .. waiter
end

-- join: put a waiter into the line, once, and keep the line for another 15 s.
-- A full line takes nobody.
local function join(line, waiter, stamp)
  if not waiter then
    return
  end
  if redis.call('ZCARD', line) < 10000 then
    redis.call('ZADD', line, 'NX', stamp, waiter)
  end
  redis.call('PEXPIRE', line, 15000)
end

-- call: take the first who can be told out of the line, tell it, and keep the
-- name for it for 1 s. Who cannot be told is gone, and is dropped. It stops at
-- self, which need not be told. Returns whether somebody was called, and self's
-- stamp if that was taken out of the line.
local function call(lease, line, self)
  while true do
    local first = redis.call('ZPOPMIN', line)
    local waiter, stamp = first[1], first[2]
    if not waiter or waiter == self then
      return false, stamp
    end
    -- What PUBLISH returns counts those too who listen to patterns: a monitor.
    local channel = 'fenlock-wake:' .. string.sub(waiter, 1, 32)
    if redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
      redis.call('PUBLISH', channel, string.sub(waiter, 34))
      redis.call('SET', lease, reserved(waiter), 'PX', 1000)
      return true
    end
  end
end

