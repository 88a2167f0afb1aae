-- force: remove the lease of any holder, and raise the register, so that the
-- old holder cannot create it again. Then notify the next in the queue.
--
-- KEYS[1]  the lease
-- KEYS[2]  the registers
-- KEYS[3]  the waiter queue of the name
-- ARGV[1]  stripe
-- ARGV[2]  floor: the register is at least this afterwards
-- ARGV[3]  the mark, if the client checks it; else empty
--
-- Returns the register; "rejoining" if the server is not admitted.
local mark = redis.call('HMGET', KEYS[2], 'admitted', 'format', ARGV[1])
local known = ARGV[3]
--@admitted
local register = mark[3] or '0'
--@register
register = math.max(tonumber(register) + 1, tonumber(ARGV[2]))
if register > 9007199254740991 then
  return redis.error_reply('FENLOCK the register of this stripe is used up')
end
-- What is no string is another program's: an error, instead of data that are gone.
redis.call('GETRANGE', KEYS[1], 0, 0)
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f', register))
--@queue
notify(KEYS[1], KEYS[3])
return register
