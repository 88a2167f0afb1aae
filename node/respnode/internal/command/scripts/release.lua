-- release: remove the holder's lease, nobody else's, and notify the next in the queue.
-- It needs no admission: removing a lease promises nothing.
--
-- KEYS[1]  the lease
-- KEYS[2]  the waiter queue of the name
-- ARGV[1]  holder
-- ARGV[2]  the waiter that gives up what is reserved for it, if there is one
-- ARGV[3]  its stamp: it enters the queue again; 0: it leaves the queue
--
-- Returns 1, or "lost" if the lease is not the holder's.
local lease, queue, waiter, stamp = KEYS[1], KEYS[2], ARGV[2], ARGV[3]
local holder = redis.call('GET', lease)
local several = holder and string.sub(holder, 1, 7) == 'shared:'
-- A request without a holder is about the waiter only.
local released = holder and not several and ARGV[1] ~= '' and string.sub(holder, 1, #ARGV[1] + 1) == ARGV[1] .. ' '
if released then
  redis.call('DEL', lease)
  if not waiter and redis.call('ZCARD', queue) == 0 then
    return 1
  end
elseif not waiter and not several then
  return 'lost'
end
if several and not waiter and redis.call('ZCARD', queue) == 0 and
  string.match(holder, '^shared:%d+\n%d+ %d+ %d+ ([^\n]+)$') == ARGV[1] then
  -- The last of them leaves, and nobody waits: what follows would come to this.
  redis.call('DEL', lease)
  return 1
end
--@queue
local freed = released
if waiter and holder == reserved(waiter) then
  redis.call('DEL', lease)
  freed = true
end
if waiter then
  if stamp == '0' then
    redis.call('ZREM', queue, waiter)
  else
    enqueue(queue, waiter, stamp)
  end
end
if several then
  --@shared
  --@call
  local s = read(holder)
  if s then
    released = remove(s, ARGV[1])
    local changed = waiter and remove(s, reserved(waiter)) or released
    if #s == 0 then
      redis.call('DEL', lease)
      freed = true
    elseif call(s, queue, waiter) or changed then
      write(lease, s)
    end
  end
end
if freed then
  local _, first = notify(lease, queue, waiter)
  if first then
    enqueue(queue, waiter, first)
  end
end
return released and 1 or 'lost'
