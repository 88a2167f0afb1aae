-- release: remove the holder's lease, nobody else's. It needs no admission:
-- removing a lease promises nothing.
--
-- KEYS[1]  the lease
-- ARGV[1]  holder
--
-- Returns 1, or "lost" if the lease is not the holder's.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'lost'
end
redis.call('DEL', KEYS[1])
return 1
