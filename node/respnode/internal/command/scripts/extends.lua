-- extends: extend, for several, each of another name. What is the same for all is done once.
--
-- KEYS[1]    the registers
-- KEYS[2..]  the leases
-- ARGV[1]    the replication id, which the client checks
-- ARGV[2..]  of each: holder, time to live in milliseconds, stripe, floor, own token
--
-- Returns what extend does for each, or "rejoining". An error is that of one of them.
local keys, args, call, try = KEYS, ARGV, redis.call, redis.pcall
local registers, fields = keys[1], { 'admitted', 'format', 'maxttl' }
for i = 4, #args, 5 do
  fields[#fields + 1] = args[i]
end
local mark = call('HMGET', registers, unpack(fields))
local known = args[1]
--@admitted
-- By stripe, as it is by now: several names may have one register.
local latest = {}

-- renew: what extend does, with all it may come to.
local function renew(KEYS, ARGV, register)
  if tonumber(ARGV[2]) > tonumber(mark[3]) then
    return 'maxttl ' .. mark[3]
  end
  --@renew
end

local answers, origins = {}, {}

-- whole: carry out number i with all that it may come to.
local function whole(i, at, stripe, floor, register)
  local done, answer = pcall(renew, { keys[i], registers }, { args[at], args[at + 1], stripe, floor, '', args[at + 4] }, register)
  answers[i - 1] = (done or type(answer) == 'table') and answer or redis.error_reply(tostring(answer))
  if done and type(answer) == 'number' and tonumber(floor) > tonumber(register) then
    latest[stripe] = floor
  end
end

-- What is not the holder's comes first: a full server refuses to create a lease, but only while the
-- script has written nothing. Each request is to be answered as if it had come alone.
local find, sub = string.find, string.sub
for i = 2, #keys do
  local at = 5 * i - 8
  local lease, value = args[at] .. ' ', try('GET', keys[i])
  if not value or type(value) == 'string' and sub(value, 1, #lease) ~= lease then
    whole(i, at, args[at + 2], args[at + 3], latest[args[at + 2]] or mark[2 + i] or '0')
  elseif type(value) == 'string' then
    -- Nearly always, the holder has told its token.
    local _, last, digits, token = find(value, '^(%d+)/(%d+)$', #lease + 1)
    if last and #digits <= 16 and (token == args[at + 4] or args[at + 4] == '0') then
      origins[i] = digits
    end
  end
end
local longest, fits = tonumber(mark[3]), nil
for i = 2, #keys do
  if answers[i - 1] == nil then
    local at = 5 * i - 8
    local ttl, stripe, floor = args[at + 1], args[at + 2], args[at + 3]
    local register = latest[stripe] or mark[2 + i] or '0'
    if ttl ~= fits and tonumber(ttl) <= longest then
      fits = ttl
    end
    -- Then only the time changes. Whatever is not as it nearly always is, renew finds once more.
    if origins[i] and ttl == fits and find(register, '^%d+$') and #register <= 16 and tonumber(floor) <= tonumber(register) and
      try('PEXPIRE', keys[i], ttl) == 1 then
      answers[i - 1] = tonumber(origins[i])
    else
      whole(i, at, stripe, floor, register)
    end
  end
end
return answers
