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

local find, sub, longest, fits, answers = string.find, string.sub, tonumber(mark[3]), nil, {}
for i = 2, #keys do
  local at = 5 * i - 8
  local holder, ttl, stripe, floor, own = args[at], args[at + 1], args[at + 2], args[at + 3], args[at + 4]
  local register = latest[stripe] or mark[2 + i] or '0'
  if ttl ~= fits and tonumber(ttl) <= longest then
    fits = ttl
  end
  -- The holder has it, and has told its token: the same in short. Whatever is not as it nearly always is, renew finds
  -- once more.
  local lease, origin = holder .. ' ', nil
  if ttl == fits and find(register, '^%d+$') and #register <= 16 and tonumber(floor) <= tonumber(register) then
    local value = try('GET', keys[i])
    if type(value) == 'string' and sub(value, 1, #lease) == lease then
      local _, last, digits, token = find(value, '^(%d+)/(%d+)$', #lease + 1)
      if last and #digits <= 16 and (token == own or own == '0') then
        origin = digits
      end
    end
  end
  local set = origin and try('PEXPIRE', keys[i], ttl)
  if set == 1 then
    answers[i - 1] = tonumber(origin)
  else
    local done, answer = pcall(renew, { keys[i], registers }, { holder, ttl, stripe, floor, '', own }, register)
    answers[i - 1] = (done or type(answer) == 'table') and answer or redis.error_reply(tostring(answer))
    if done and type(answer) == 'number' and tonumber(floor) > tonumber(register) then
      latest[stripe] = floor
    end
  end
end
return answers
