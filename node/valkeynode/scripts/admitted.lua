-- admitted: whether a mark of admission is what the server is now. This file is
-- put before each operation that promises something. Its second argument is empty,
-- or the id that the client knows: then the mark must be that, and the client
-- itself looks at the server after its requests, once for many (batch.go).
--
-- The mark is the replication id that the server had when it was admitted. The
-- id changes with every start, and when the server has followed another one:
-- then the leases and registers here are not those that were promised. A
-- replica shows its primary's id beside its primary's mark, so the role counts too.
local function admitted(mark, known)
  if known ~= '' then
    return mark == known
  end
  if not mark then
    return false
  end
  local info = redis.call('INFO', 'replication')
  return string.find(info, 'master_replid:' .. mark .. '\r\n', 1, true) and
    string.find(info, 'role:master\r\n', 1, true)
end
