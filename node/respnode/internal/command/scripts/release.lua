-- release: remove the holder's lease, no other's, and notify the next in the queue, or
-- give the name to it. It needs no admission, but to give: removing a lease promises nothing. It
-- works on a full server (maxmemory, noeviction), which refuses nothing after DEL or PEXPIRE.
--
-- KEYS[1]  the lease
-- KEYS[2]  the registers, if the name may be given; else the waiter queue of the name
-- KEYS[3]  that queue, if the name may be given
-- ARGV[1]  holder
-- ARGV[2]  the waiter that gives up what is reserved for it; none, or empty: no waiter
-- ARGV[3]  its stamp: it enters the queue again; 0: it leaves the queue
-- ARGV[4]  proposal, if the name may be given
-- ARGV[5]  stripe, the field of the register
--
-- Returns 1, or "lost" if the lease is not the holder's.
local lease, queue, waiter, stamp = KEYS[1], KEYS[#KEYS], ARGV[2] ~= '' and ARGV[2] or nil, ARGV[3]
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
  -- The last holder leaves, without a waiter: what follows would come to this.
  redis.call('DEL', lease)
  return 1
end
--@queue
local freed = released
if waiter and holder and (holder == reserved(waiter) or
    stamp == '0' and givesBack(holder, waiter, ARGV[1])) then
  redis.call('DEL', lease)
  freed = true
end
if waiter then
  if stamp == '0' then
    redis.call('ZREM', queue, waiter)
  else
    if several then
      -- A full server refuses ZADD as the first write, and the holder's share must go all the same.
      redis.call('PEXPIRE', queue, 15000)
    end
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
      write(lease, s, true)
    end
  end
end
-- give: lease the name to a waiter for 1 s, as an acquire of its own would, and tell it the
-- number and the clock. Returns true; else nothing was done, and the server may not.
local function give(waiter, channel)
  local mark = redis.call('HMGET', KEYS[2], 'admitted', 'format', ARGV[5])
  local known = ''
  --@admitted
  local register = mark[3] or '0'
  --@register
  --@promise
  local time = redis.call('TIME')
  local label = string.match(waiter, '^%d+:(.*)$', 34) or ''
  -- The register first: what the waiter finds leased to it counts, so no lease may be there without it.
  redis.call('HSET', KEYS[2], ARGV[5], text)
  redis.call('SET', lease, givenTo(waiter) .. text .. ':' .. label .. ' ' .. text, 'PX', 1000)
  redis.call('PUBLISH', channel, string.match(waiter, '^%d+', 34) .. ' ' .. text .. ' ' .. time[1] .. string.format('%06d', time[2]))
  return true
end

if freed then
  local _, first = notify(lease, queue, waiter, ARGV[4] and give)
  if first then
    enqueue(queue, waiter, first)
  end
end
return released and 1 or 'lost'
