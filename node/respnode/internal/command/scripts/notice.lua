-- notice: remove the mark of a server that is out, and record since when it is. As long as the mark
-- is there, a client that knows the replication id of before can make leases. All clients
-- count from here.
--
-- How many replicas there were is kept, less one if this is one of them, which was promoted. An old
-- primary must not forget by itself that it was replaced: not when its backlog goes, nor by a restart.
-- The others of a promoted replica may be promoted next, before a client has seen that they follow it. It
-- has not recorded the number, and has been sent a stream since its start.
--
-- KEYS[1]  the registers
-- ARGV[1]  replication id
--
-- Returns "noticed"; else nothing was done: "changed", since the server was restarted or has followed
-- another one meanwhile, or the mark is of what it is now; "format N", since a newer program uses it.
local info = redis.call('INFO', 'replication')
if not string.find(info, 'master_replid:' .. ARGV[1] .. '\r\n', 1, true) then
  return 'changed'
end
local known = redis.call('HMGET', KEYS[1], 'admitted', 'noticed', 'format', 'primary')
if string.match(known[1] or '', '^%w+') == ARGV[1] then
  return 'changed'
end
local format = known[3] or '1'
if format ~= '1' and format ~= '2' and format ~= '3' then
  return 'format ' .. format
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local id, at = string.match(known[2] or '', '^(%x+) (%d+)$')
if known[1] then
  redis.call('HDEL', KEYS[1], 'admitted', 'replicas')
  local replicas = string.match(known[1], '^%w+/(%d+)$')
  local own = known[4] == string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local sent = string.match(redis.call('INFO', 'stats'), 'total_net_repl_input_bytes:(%d+)') or '0'
  if replicas and not own and sent ~= '0' then
    replicas = replicas ~= '1' and string.format('%.0f', tonumber(replicas) - 1)
  end
  if replicas then
    redis.call('HSET', KEYS[1], 'replicas', replicas)
  end
elseif id == ARGV[1] and tonumber(at) <= now then
  return 'noticed'
end
redis.call('HSET', KEYS[1], 'noticed', ARGV[1] .. ' ' .. string.format('%.0f', now))
return 'noticed'
