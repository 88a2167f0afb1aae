-- extend: renew the holder's lease, or create it again if nobody can have been
-- granted the name since.
--
-- KEYS[1]  the lease
-- KEYS[2]  the registers
-- ARGV[1]  holder
-- ARGV[2]  time to live in milliseconds, from now
-- ARGV[3]  stripe
-- ARGV[4]  the holder's token
-- ARGV[5]  the replication id, if the client checks it; else empty
--
-- Returns the register, which tells the holder what the acceptance proves;
-- "lost"; "rejoining"; "maxttl N" if the lease would be too long.
local mark = redis.call('HMGET', KEYS[2], 'admitted', 'format', 'maxttl', ARGV[3])
local known = ARGV[5]
--@admitted
if tonumber(ARGV[2]) > tonumber(mark[3]) then
  return 'maxttl ' .. mark[3]
end
local holder = redis.call('GET', KEYS[1])
local register = tonumber(mark[4]) or 0
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return register
end
if not holder and register <= tonumber(ARGV[4]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return register
end
return 'lost'
