-- acquires: acquire, for several clients that do not wait, each of another name. What is the same
-- for all is done once: this is a third less work for the server than the script of each.
--
-- KEYS[1]    the registers
-- KEYS[2..]  pairs: lease, waiter queue
-- ARGV[1]    the replication id, which the client checks
-- ARGV[2..]  of each: holder, time to live in milliseconds, stripe, proposal
--
-- Returns what acquire does for each, or "rejoining". An error is that of one of them.
local keys, args, call, try = KEYS, ARGV, redis.call, redis.pcall
local registers, fields = keys[1], { 'admitted', 'format', 'maxttl' }
for i = 4, #args, 4 do
  fields[i / 4 + 3] = args[i]
end
local mark = call('HMGET', registers, unpack(fields))
local known = args[1]
--@admitted
-- By stripe, as it will be: several names may have one register. And fields with their values.
local latest, moved = {}, {}

-- grant: what acquire does, with all it may come to. It calls nothing that changes a register.
local function grant(KEYS, ARGV, register)
  --@grant
  latest[ARGV[3]] = text
  moved[#moved + 1] = ARGV[3]
  moved[#moved + 1] = text
  return number
end

local find, longest, fits, answers = string.find, tonumber(mark[3]), nil, {}
for i = 1, #keys / 2 do
  local at = 4 * i - 2
  local lease, queue, holder, ttl, stripe, text = keys[2 * i], keys[2 * i + 1], args[at], args[at + 1], args[at + 2], args[at + 3]
  local register = latest[stripe] or mark[3 + i] or '0'
  if ttl ~= fits and tonumber(ttl) <= longest then
    fits = ttl
  end
  -- No lease, no waiter: the same in short. In an unusual case grant looks once more.
  local number, set = tonumber(text), nil
  if ttl == fits and find(register, '^%d+$') and #register <= 16 and number > tonumber(register) and
    number <= 9007199254740991 and try('ZCARD', queue) == 0 then
    set = try('SET', lease, holder .. ' ' .. text, 'NX', 'PX', ttl)
  end
  if set and set.ok then
    latest[stripe] = text
    moved[#moved + 1] = stripe
    moved[#moved + 1] = text
    answers[i] = number
  else
    local done, answer = pcall(grant, { lease, registers, queue }, { holder, ttl, stripe, text }, register)
    answers[i] = (done or type(answer) == 'table') and answer or redis.error_reply(tostring(answer))
  end
end
if #moved > 0 then
  call('HSET', registers, unpack(moved))
end
return answers
