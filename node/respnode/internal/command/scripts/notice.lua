-- notice: record when it was first noticed that the server lost its memory, where
-- its uptime does not tell. All clients count from here.
--
-- KEYS[1]  the registers
-- ARGV[1]  replication id
--
-- Returns the milliseconds since then, on the server's clock; -1 if the server
-- was restarted or has followed another one meanwhile.
if not string.find(redis.call('INFO', 'replication'), 'master_replid:' .. ARGV[1] .. '\r\n', 1, true) then
  return -1
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local id, at = string.match(redis.call('HGET', KEYS[1], 'noticed') or '', '^(%x+) (%d+)$')
if id == ARGV[1] and tonumber(at) <= now then
  return now - tonumber(at)
end
redis.call('HSET', KEYS[1], 'noticed', ARGV[1] .. ' ' .. string.format('%.0f', now))
return 0
