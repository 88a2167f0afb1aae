-- guard: set a key, unless a newer holder has written to it. It runs where the
-- data is, which need not be a node.
--
-- KEYS[1]  the key that the lock protects
-- KEYS[2]  the largest token seen for it
-- ARGV[1]  token
-- ARGV[2]  value
--
-- Returns 0 if the value was set, else the largest token seen.
local newest = tonumber(redis.call('GET', KEYS[2])) or 0
if tonumber(ARGV[1]) < newest then
  return newest
end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[2])
return 0
