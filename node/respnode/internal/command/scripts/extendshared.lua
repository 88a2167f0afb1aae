-- extendshared: extend, for a holder that shares the name, or shares it from now on. The arguments
-- and what is returned are those of extend.
--
-- KEYS[1]  the lease
-- KEYS[2]  the registers
-- KEYS[3]  the waiter queue of the name
local mark = redis.call('HMGET', KEYS[2], 'admitted', 'format', 'maxttl', ARGV[3])
local known = ARGV[5]
--@admitted
if tonumber(ARGV[2]) > tonumber(mark[3]) then
  return 'maxttl ' .. mark[3]
end
local register = mark[4] or '0'
--@register
--@shared
local value = redis.call('GET', KEYS[1])

-- renew: the value with another end of the holder's lease, when the last one ends, and the holder's
-- origin. It reads nothing but the ends of the others: 256 readers that are extended together would
-- keep the server busy for a third of a second otherwise. Nil if that is not all that there is to
-- do, or if it is not clear.
local function renew(holder, ends)
  local from, to = string.find(value, ' ' .. holder, 1, true)
  local epoch = string.match(value, '^shared:(%d+)\n')
  if not from or not epoch or epoch ~= '0' and tonumber(ARGV[4]) > tonumber(epoch) or to < #value and string.sub(value, to + 1, to + 1) ~= '\n' then
    return
  end
  local start = math.max(from - 60, 1)
  local own, origin, token = string.match(string.sub(value, start, from - 1), '\n()%d+ (%d+) (%d+)$')
  if not own then
    return
  end
  own = start + own - 1
  local last, at = tonumber(ends), string.find(value, '\n', 1, true)
  while at do
    local other = tonumber(string.match(value, '^(%d+) ', at + 1))
    if not other or other <= now or other > 999999999999999 then
      return
    elseif other > last and at + 1 ~= own then
      last = other
    end
    at = string.find(value, '\n', at + 1, true)
  end
  token = ARGV[6] ~= '0' and ARGV[6] or token
  return string.sub(value, 1, own - 1) .. ends .. ' ' .. origin .. ' ' .. token .. string.sub(value, from), last, origin
end

local renewed, last, origin
if value then
  renewed, last, origin = renew(ARGV[1], ending(ARGV[2]))
end
if renewed then
  put(KEYS[1], renewed, last, true)
  if tonumber(ARGV[4]) > tonumber(register) then
    redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
  end
  return tonumber(origin)
end
local s = read(value)
local alone = not s
if alone then
  -- One holder has the name alone, or it is reserved for a waiter that wants that.
  s = read(nil)
  if string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. ' ' then
    local origin, token = string.match(string.sub(value, #ARGV[1] + 2), '^(%d+)/?(%d*)$')
    if not origin or #origin > 16 then
      return redis.error_reply('FENLOCK the lease ' .. KEYS[1] .. ' has no origin: it was changed by hand')
    end
    add(s, { origin = origin, token = token ~= '' and token or '0', holder = ARGV[1] })
  elseif string.sub(value, 1, 5) == 'next:' then
    alone = false
  else
    return 'lost'
  end
end
if not agree(s, ARGV[1]) then
  return 'lost'
end
local own = find(s, ARGV[1])
local there = own ~= nil
own = own or add(s, { origin = register, token = '0', holder = ARGV[1] })
own.ends = ending(ARGV[2])
if tonumber(ARGV[4]) > tonumber(s.epoch) then
  s.epoch = '0' -- an acquire of before that comes late gets a number past the floor
end
if ARGV[6] ~= '0' then
  own.token = ARGV[6]
end
if alone and redis.call('ZCARD', KEYS[3]) > 0 then
  -- Waiters that want to share it do that now.
  local queue = KEYS[3]
  --@queue
  --@call
  call(s, queue)
end
write(KEYS[1], s, there)
if tonumber(ARGV[4]) > tonumber(register) then
  redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
end
return tonumber(own.origin)
