-- renew: what extend does for a name, with all that it may come to. This file is put where it says
-- --@renew, after register; ARGV[1] to ARGV[4] and ARGV[6] are those of extend.
--
-- A full server (maxmemory, noeviction) refuses a command that may need memory, unless the script has
-- written before. So PEXPIRE comes first there: the lease that exists is extended, and its register
-- can be raised. A lease is not created there.
--@register
local value, origin, token, there = redis.call('GET', KEYS[1]), nil, '', false
if not value or string.sub(value, 1, 5) == 'next:' then
  origin = register
elseif string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. ' ' then
  there, origin, token = true, string.match(string.sub(value, #ARGV[1] + 2), '^(%d+)/?(%d*)$')
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
if not there then
  redis.call('SET', KEYS[1], new, 'PX', ARGV[2])
elseif new == value then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
elseif redis.pcall('SET', KEYS[1], new, 'PX', ARGV[2]).err then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.pcall('SET', KEYS[1], new, 'PX', ARGV[2]) -- the token, which decides nothing
end
if tonumber(ARGV[4]) > tonumber(register) then
  redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
end
return tonumber(origin)
