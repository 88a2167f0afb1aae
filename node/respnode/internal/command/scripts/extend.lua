-- extend: renew the holder's lease, or create it again if there is none. A name
-- reserved for waiters counts as free.
--
-- KEYS[1]  the lease
-- KEYS[2]  the registers
-- ARGV[1]  holder
-- ARGV[2]  time to live in milliseconds, from now
-- ARGV[3]  stripe
-- ARGV[4]  floor: the register is at least this afterwards
-- ARGV[5]  the replication id, if the client checks it; else empty
-- ARGV[6]  the holder's token, for people that look at the lease; 0: it has none yet
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
--@renew
