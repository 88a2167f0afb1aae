-- confirm: raise the register to a number, while the lease is the holder's.
--
-- KEYS[1]  the lease
-- KEYS[2]  the registers
-- ARGV[1]  run id of the server that the client believes it talks to
-- ARGV[2]  holder
-- ARGV[3]  stripe
-- ARGV[4]  the number
--
-- Returns the number; {register} if that is larger already; "lost" if the lease
-- is not the holder's; "rejoining" if this run of the server is not admitted.
local mark = redis.call('HMGET', KEYS[2], 'run', ARGV[3])
if mark[1] ~= ARGV[1] then
  return 'rejoining'
end
if redis.call('GET', KEYS[1]) ~= ARGV[2] then
  return 'lost'
end
local register = tonumber(mark[2]) or 0
local number = tonumber(ARGV[4])
if register > number then
  return {register}
end
redis.call('HSET', KEYS[2], ARGV[3], string.format('%.0f', number))
return number
