-- release: remove the holder's lease, nobody else's, and call the next in line.
-- It needs no admission: removing a lease promises nothing.
--
-- KEYS[1]  the lease
-- KEYS[2]  the line of those who wait for the name
-- ARGV[1]  holder
-- ARGV[2]  the waiter that gives up what is kept for it, if there is one
-- ARGV[3]  its stamp: it joins the line again; 0: it leaves the line
--
-- Returns 1, or "lost" if the lease is not the holder's.
local lease, line, waiter, stamp = KEYS[1], KEYS[2], ARGV[2], ARGV[3]
local holder = redis.call('GET', lease)
-- A request without a holder is about the waiter only.
local released = holder == ARGV[1] and holder ~= ''
if released then
  redis.call('DEL', lease)
  if not waiter and redis.call('ZCARD', line) == 0 then
    return 1
  end
elseif not waiter then
  return 'lost'
end
--@line
local freed = released
if waiter and holder == reserved(waiter) then
  redis.call('DEL', lease)
  freed = true
end
if waiter then
  if stamp == '0' then
    redis.call('ZREM', line, waiter)
  else
    join(line, waiter, stamp)
  end
end
if freed then
  local _, first = call(lease, line, waiter)
  if first then
    join(line, waiter, first)
  end
end
return released and 1 or 'lost'
