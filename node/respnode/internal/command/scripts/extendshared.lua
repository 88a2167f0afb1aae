-- extendshared: extend, for one who shares the name, or shares it from now on. The arguments
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
local s = read(value)
local alone = not s
if alone then
  -- Somebody has the name alone, or it is reserved for somebody who wants that.
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
local own = find(s, ARGV[1]) or add(s, { origin = register, token = '0', holder = ARGV[1] })
own.ends = ending(ARGV[2])
if ARGV[6] ~= '0' then
  own.token = ARGV[6]
end
if alone and redis.call('ZCARD', KEYS[3]) > 0 then
  -- Those who wait to share it do that now.
  local queue = KEYS[3]
  --@queue
  --@call
  call(s, queue)
end
write(KEYS[1], s)
if tonumber(ARGV[4]) > tonumber(register) then
  redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
end
return tonumber(own.origin)
