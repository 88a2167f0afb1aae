-- shared: the lease that several have together. This file is put where an operation says
-- --@shared, which is where it has met one, or makes one. The rules are package rule's.
--
-- The lease is one string, as any, so that a client that wants the name alone finds it:
-- "shared:EPOCH" and a line for each of them, "EXPIRES ORIGIN TOKEN HOLDER", in the order of
-- the holders' bytes. EPOCH is the number that was promised to them last, 0 for none. EXPIRES is
-- when it ends for this one, in milliseconds of the server's clock. The key lasts as long
-- as the last one's. Some of the holders may be reservations.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- ending: the text of the time that is so many milliseconds away.
local function ending(ms)
  return string.format('%.0f', now + ms)
end

-- promised: whether a holder shares the name, beside reservations.
local function promised(s)
  for _, r in ipairs(s) do
    if string.sub(r.holder, 1, 5) ~= 'next:' then
      return true
    end
  end
  return false
end

-- read: the readers by the value of the lease: none, if there is no lease. Nil if
-- it is not such a value: one holder alone has the name, whatever it wrote. A time that no
-- clock shows is no part of such a value: the server would not take it as the key's end.
local function read(value)
  local s = { epoch = '0' }
  if not value then
    return s
  end
  local epoch, lines = string.match(value, '^shared:0*(%d+)(\n.*)$')
  if not epoch then
    return nil
  end
  for line in string.gmatch(lines, '\n([^\n]*)') do
    local ends, origin, token, holder = string.match(line, '^(%d+) (%d+) (%d+) (.+)$')
    if not ends or #ends > 15 then
      return nil
    end
    if tonumber(ends) > now then
      table.insert(s, { ends = ends, origin = origin, token = token, holder = holder })
    end
  end
  if promised(s) then
    s.epoch = epoch
  end
  return s
end

-- put: set the lease, until the time last. With there, the lease exists and gets no further holder. A
-- full server (maxmemory, noeviction) refuses SET unless the script has written before; then PEXPIRE,
-- which needs no memory, comes first. A lease is not created there.
local function put(lease, value, last, there)
  local ends = string.format('%.0f', last)
  if there then
    if not redis.pcall('SET', lease, value, 'PXAT', ends).err then
      return
    end
    redis.call('PEXPIRE', lease, string.format('%.0f', last - now))
  end
  redis.call('SET', lease, value, 'PXAT', ends)
end

-- write: make the lease theirs, as put does. There is at least one.
local function write(lease, s, there)
  local last, lines = 0, { 'shared:' .. s.epoch }
  for i, r in ipairs(s) do
    last = math.max(last, tonumber(r.ends))
    lines[i + 1] = r.ends .. ' ' .. r.origin .. ' ' .. r.token .. ' ' .. r.holder
  end
  put(lease, table.concat(lines, '\n'), last, there)
end

-- find: the one with a holder, and where; nil if there is none.
local function find(s, holder)
  for i, r in ipairs(s) do
    if r.holder == holder then
      return r, i
    end
  end
end

-- add: one more, in its place. What Lua compares strings by is the server's locale.
local function add(s, r)
  local function less(a, b)
    for i = 1, math.min(#a, #b) do
      local x, y = string.byte(a, i), string.byte(b, i)
      if x ~= y then
        return x < y
      end
    end
    return #a < #b
  end
  local low, high = 1, #s + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if less(s[middle].holder, r.holder) then
      low = middle + 1
    else
      high = middle
    end
  end
  table.insert(s, low, r)
  return r
end

-- remove: one less, if there is one with the holder. Readers that come when no holder is left, or
-- only reservations are, may come after another holder.
local function remove(s, holder)
  local r, at = find(s, holder)
  if r then
    table.remove(s, at)
  end
  if not promised(s) then
    s.epoch = '0'
  end
  return r ~= nil
end

-- slots: of how many slots a holder has one, '' of none.
local function slots(holder)
  return string.match(holder, '^%x+@%d+/([1-9]%d?%d?%d?%d?):') or ''
end

-- agree: whether a holder may be one of them: all have one of the same number of slots.
local function agree(s, holder)
  local own = slots(holder)
  for _, r in ipairs(s) do
    if string.sub(r.holder, 1, 5) ~= 'next:' and slots(r.holder) ~= own then
      return false
    end
  end
  return true
end
