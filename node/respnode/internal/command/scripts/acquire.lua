-- acquire: lease a name, and promise a number larger than every one before.
--
-- KEYS[1]  the lease: a string with a time to live, the holder, a space, and the
--          lease's origin: the register when it was created. A slash and the
--          holder's token follow once that has told it; they decide nothing. Holders
--          that share the name have one together (shared.lua)
-- KEYS[2]  the registers: a hash; its field "admitted" is the mark of admission,
--          the replication id that the server had when it was admitted
-- KEYS[3]  the waiter queue of the name
-- ARGV[1]  holder
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  stripe, the field of the register
-- ARGV[4]  proposal
-- ARGV[5]  the replication id, if the client checks it; else empty
-- ARGV[6]  the waiter that asks, if it is one
-- ARGV[7]  its stamp
--
-- Returns the number promised; {holder or false, remaining ms, waiters ahead,
-- the server's clock in microseconds} if leased already; "rejoining" if the
-- server is not admitted; "maxttl N" if the lease would be longer than the
-- group's longest, N ms.
local mark = redis.call('HMGET', KEYS[2], 'admitted', 'format', 'maxttl', ARGV[3])
local known = ARGV[5]
--@admitted
local register = mark[4] or '0'
--@grant
redis.call('HSET', KEYS[2], ARGV[3], text)
return number
