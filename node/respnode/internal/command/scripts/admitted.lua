-- admitted: go on only if the mark of admission is what the server is now, and the
-- format is the one that this program knows. This file is put where an operation that
-- promises something says --@admitted, after mark[1], the mark, mark[2], the format,
-- and known, the replication id that the client knows. If the client gives
-- one, it looks at the server itself, after its requests, once for many
-- (internal/admission/voting.go). If known is empty, this has to look.
--
-- The mark is the replication id that the server had when it was admitted. The
-- id changes with every start, and when the server has followed another one:
-- then the leases and registers here are not those that were promised. A
-- replica shows its primary's id beside its primary's mark, so the role counts too.
-- A server with replicas has their number in its mark, and an answer counts once they have
-- seen it. So the script of a client that does not wait for them carries nothing out.
if known == '' then
  local info = redis.call('INFO', 'replication')
  known = string.find(info, 'role:master\r\n', 1, true) and string.find(info, 'connected_slaves:0\r\n', 1, true) and
    string.match(info, 'master_replid:(%w+)')
end
-- A newer program writes a newer format. From that moment on older ones are out, in
-- the middle of their lives, and find the reason where they want to admit the server.
if not known or mark[1] ~= known or mark[2] ~= '3' then
  return 'rejoining'
end
