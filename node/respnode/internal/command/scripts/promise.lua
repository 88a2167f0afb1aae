-- promise: the number that an acquire promises, larger than every one before. This file is
-- put where it says --@promise, after register; ARGV[4] is the proposal.
--
-- Lua would write a large number as 1.7952237360533e+15.
local number, text = tonumber(ARGV[4]), ARGV[4]
local least = tonumber(register) + 1
if number < least then
  number, text = least, string.format('%.0f', least)
end
if number > 9007199254740991 then
  return redis.error_reply('FENLOCK the register of this stripe is used up')
end
