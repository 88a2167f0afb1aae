-- call: let waiting readers share the name. This file is put where an operation says
-- --@call, after queue.lua and shared.lua.

-- tell: notify a waiter, and reserve a share for it for 1 s.
local function tell(s, waiter, channel)
  redis.call('PUBLISH', channel, string.match(waiter, '^%d+', 34))
  add(s, { ends = ending(1000), origin = '0', token = '0', holder = reserved(waiter) })
end

-- call: notify the waiters at the head of the queue that want to share the name, one after the
-- other, as long as there is room. It stops at self, and at a waiter that wants the name alone:
-- that waits for the readers, and later clients wait for it. An unreachable waiter is dropped.
-- At least one holder shares the name. Returns whether a waiter was notified.
local function call(s, queue, self)
  local told = false
  while true do
    local waiter = redis.call('ZRANGE', queue, 0, 0)[1]
    if not waiter or waiter == self or shares(waiter) and #s >= 256 then
      return told
    end
    local up, channel = reachable(waiter)
    if up and not shares(waiter) then
      return told
    end
    redis.call('ZREM', queue, waiter)
    if up then
      tell(s, waiter, channel)
      told = true
    end
  end
end
