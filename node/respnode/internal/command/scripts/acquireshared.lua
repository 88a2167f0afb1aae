-- acquireshared: lease a name to one more reader. The keys, the arguments and what is returned are
-- those of acquire. A reader that comes while others share the name is promised the same
-- number as these, and moves no register.
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
-- Before anything is changed, here too.
local waiting = redis.call('ZCARD', queue)
local value = redis.call('GET', lease)
if not value and waiting == 0 then
  -- No lease, no waiter: what follows would come to this, but makes many functions first.
  local clock = redis.call('TIME')
  local ends = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[2])
  redis.call('SET', lease, 'shared:' .. text .. '\n' .. ends .. ' ' .. text .. ' 0 ' .. ARGV[1], 'PXAT', ends)
  redis.call('HSET', KEYS[2], ARGV[3], text)
  return number
end
--@queue
--@shared
--@call
local s = read(value)
local called = s and waiter and remove(s, reserved(waiter))
local changed, turn = called, called or waiting == 0
if s and not turn then
  -- Others may be first.
  enqueue(queue, waiter, stamp)
  if #s > 0 then
    changed = call(s, queue, waiter)
  elseif notify(lease, queue, waiter) then
    s = read(redis.call('GET', lease))
  else
    turn = true -- the asker was taken out of the queue, if it was in it
  end
  local head = redis.call('ZRANGE', queue, 0, 0)[1]
  turn = turn or not head or head == waiter
end
if not s or not turn or #s >= 256 or find(s, ARGV[1]) or not agree(s, ARGV[1]) then
  if changed then
    write(lease, s)
  end
  enqueue(queue, waiter, stamp)
  local ahead = waiter and redis.call('ZRANK', queue, waiter) or redis.call('ZCARD', queue)
  local holder = redis.call('GET', lease)
  return {holder and string.sub(holder, 1, 1024), redis.call('PTTL', lease), ahead, time[1] * 1000000 + time[2]}
end
if s.epoch == '0' then
  redis.call('HSET', KEYS[2], ARGV[3], text)
  s.epoch = text
end
add(s, { ends = ending(ARGV[2]), origin = s.epoch, token = '0', holder = ARGV[1] })
if waiter then
  redis.call('ZREM', queue, waiter)
end
call(s, queue)
write(lease, s)
return tonumber(s.epoch)
