-- register: go on only if the register, which an operation has read, is a number. This
-- file is put where it says --@register. What another program wrote there is not taken for
-- 0, which would promise old numbers once more.
if not string.find(register, '^%d+$') or #register > 16 then
  return redis.error_reply('FENLOCK the register of this stripe is no number: the hash ' .. KEYS[2] .. ' was changed by hand')
end
