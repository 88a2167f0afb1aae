-- acquire: lease a name, and promise a number larger than every one before.
--
-- KEYS[1]  the lease: a string, the holder, with a time to live
-- KEYS[2]  the registers: a hash; its field "admitted" is the mark of admission,
--          the replication id that the server had when it was admitted
-- ARGV[1]  holder
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  stripe, the field of the register
-- ARGV[4]  proposal
--
-- Returns the number promised; {holder or false, remaining ms} if leased already;
-- "rejoining" if the server is not admitted; "maxttl N" if the lease would be
-- longer than the group's longest, N ms.
local mark = redis.call('HMGET', KEYS[2], 'admitted', 'maxttl', ARGV[3])
if not admitted(mark[1]) then
  return 'rejoining'
end
if tonumber(ARGV[2]) > tonumber(mark[2]) then
  return 'maxttl ' .. mark[2]
end
local number = math.max((tonumber(mark[3]) or 0) + 1, tonumber(ARGV[4]))
if number > 9007199254740991 then
  return redis.error_reply('FENLOCK the register of this stripe is used up')
end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}
end
-- Lua would write a large number as 1.7952237360533e+15.
redis.call('HSET', KEYS[2], ARGV[3], string.format('%.0f', number))
return number
