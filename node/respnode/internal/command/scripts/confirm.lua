-- confirm: raise the register to a number, while the lease is the holder's.
--
-- KEYS[1]  the lease
-- KEYS[2]  the registers
-- ARGV[1]  holder
-- ARGV[2]  stripe
-- ARGV[3]  the number
-- ARGV[4]  the replication id, if the client checks it; else empty
--
-- Returns the number; {register} if that is larger already; "lost" if the lease
-- is not the holder's; "rejoining" if the server is not admitted.
local mark = redis.call('HMGET', KEYS[2], 'admitted', 'format', ARGV[2])
local known = ARGV[4]
--@admitted
local register = mark[3] or '0'
--@register
local number = tonumber(ARGV[3])
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, 7) == 'shared:' then
  --@shared
  local s = read(value)
  local own = s and find(s, ARGV[1])
  if not own then
    return 'lost'
  elseif tonumber(register) > number then
    return {tonumber(register)}
  end
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
  own.token = ARGV[3]
  -- A confirm makes no epoch where there is none: it may be executed again, after its holder, which had
  -- the name alone, lets others share it.
  if s.epoch ~= '0' then
    s.epoch = ARGV[3]
  end
  write(KEYS[1], s)
  return number
end
if not value or string.sub(value, 1, #ARGV[1] + 1) ~= ARGV[1] .. ' ' then
  return 'lost'
end
if tonumber(register) > number then
  return {tonumber(register)}
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
-- For people that look at it.
local origin = string.match(string.sub(value, #ARGV[1] + 2), '^(%d+)/?%d*$')
if origin then
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. origin .. '/' .. ARGV[3], 'KEEPTTL')
end
return number
