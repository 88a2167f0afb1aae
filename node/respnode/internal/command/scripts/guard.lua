-- guard: set a key, unless a newer holder has written to it. It runs where the
-- data is, which need not be a node.
--
-- KEYS[1]  the key that the lock protects
-- KEYS[2]  the largest token seen for it
-- ARGV[1]  token
-- ARGV[2]  value
--
-- Returns 0 if the value was set, else the largest token seen. If that is unreadable,
-- nothing is set: an error, of the server if it is no string, or of this if it is no token.
local text = redis.call('GET', KEYS[2])
local newest = 0
if text then
  newest = string.match(text, '^%d+$') and tonumber(text) or 0
  if newest < 1 or newest > 9007199254740991 then
    return redis.error_reply('FENLOCK the record of tokens is not one')
  end
end
if tonumber(ARGV[1]) < newest then
  return newest
end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[2])
return 0
