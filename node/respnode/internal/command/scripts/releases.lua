-- releases: release, for several holders that wait for nothing, each of another name.
--
-- KEYS[1]    the registers
-- KEYS[2..]  pairs: lease, waiter queue
-- ARGV       of each: holder, stripe, proposal; the last two are empty if the name may not be given
--
-- Returns what release does for each. An error is that of one of them.
local keys, args, try, sub = KEYS, ARGV, redis.pcall, string.sub

local function release(KEYS, ARGV)
  --@release
end

local answers, free = {}, {}
for i = 1, #args / 3 do
  local lease, queue, holder, stripe, proposal = keys[2 * i], keys[2 * i + 1], args[3 * i - 2], args[3 * i - 1], args[3 * i]
  local value, own = try('GET', lease), holder .. ' '
  -- The holder has it alone, without waiters: the same in short.
  if type(value) == 'string' and sub(value, 1, #own) == own and own ~= ' ' and sub(value, 1, 7) ~= 'shared:' and
    try('ZCARD', queue) == 0 then
    free[#free + 1] = lease
    answers[i] = 1
  else
    -- A register that this moves is read by the next one that is given a name, and by the acquires behind.
    local done, answer
    if proposal == '' then
      done, answer = pcall(release, { lease, queue }, { holder })
    else
      done, answer = pcall(release, { lease, keys[1], queue }, { holder, '', '', proposal, stripe })
    end
    answers[i] = (done or type(answer) == 'table') and answer or redis.error_reply(tostring(answer))
  end
end
if #free > 0 then
  redis.call('DEL', unpack(free))
end
return answers
