-- extend: renew the holder's lease, or create it again if nobody has one. What is
-- reserved for waiters is nobody's.
--
-- KEYS[1]  the lease
-- KEYS[2]  the registers
-- ARGV[1]  holder
-- ARGV[2]  time to live in milliseconds, from now
-- ARGV[3]  stripe
-- ARGV[4]  floor: the register is at least this afterwards
-- ARGV[5]  the replication id, if the client checks it; else empty
-- ARGV[6]  the holder's token, for those who look at the lease; 0: it has none yet
--
-- Returns the lease's origin, which tells the holder what the acceptance proves;
-- "lost"; "rejoining"; "maxttl N" if the lease would be too long.
local mark = redis.call('HMGET', KEYS[2], 'admitted', 'format', 'maxttl', ARGV[3])
local known = ARGV[5]
--@admitted
if tonumber(ARGV[2]) > tonumber(mark[3]) then
  return 'maxttl ' .. mark[3]
end
local register = mark[4] or '0'
--@register
local value, origin, token = redis.call('GET', KEYS[1]), nil, ''
if not value or string.sub(value, 1, 5) == 'next:' then
  origin = register
elseif string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. ' ' then
  origin, token = string.match(string.sub(value, #ARGV[1] + 2), '^(%d+)/?(%d*)$')
  if not origin or #origin > 16 then
    return redis.error_reply('FENLOCK the lease ' .. KEYS[1] .. ' has no origin: it was changed by hand')
  end
elseif string.sub(value, 1, 7) ~= 'shared:' then
  return 'lost'
else
  --@shared
  local s = read(value)
  if not s or promised(s) then
    return 'lost'
  end
  origin = register
end
local own = ARGV[6] ~= '0' and ARGV[6] or token
local new = ARGV[1] .. ' ' .. origin .. (own ~= '' and '/' .. own or '')
if new == value then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], new, 'PX', ARGV[2])
end
if tonumber(ARGV[4]) > tonumber(register) then
  redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
end
return tonumber(origin)
