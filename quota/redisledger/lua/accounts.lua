-- Module accounts: an account's meta and its cooldowns.

local FORMAT = 'ration ledger, version 2' -- how meta's items begin
local DAY = 86400000000

-- turn gives meta a new head, so that nothing sent earlier is decided and clients drop their
-- caches. Its last byte, look, says whether there may be cooldowns or slots.
local function turn(meta, look)
  local head = head_of(meta)
  if head == '' then return head end
  local version = redis.call('HINCRBY', meta, 'version', 1)
  head = string.sub(head, 1, 8) .. struct.pack('>I3B', version % 2^24, look or string.byte(head, 12))
  redis.call('HSET', meta, 'head', head)
  return head
end

-- guard tells all clients, until an instant at least, that there may be cooldowns or slots.
local function guard(meta, till)
  local head, have = unpack(redis.call('HMGET', meta, 'head', 'guard'))
  if not head then return end
  if tonumber(have or '0') < till then redis.call('HSET', meta, 'guard', string.format('%.0f', till)) end
  if string.byte(head, 12) == 0 then turn(meta, 1) end
end

-- unguard reverts guard when there are none left.
local function unguard(meta, cool, now)
  local till = redis.call('HGET', meta, 'guard')
  if now <= tonumber(till or '0') or redis.call('EXISTS', cool) == 1 then return end
  turn(meta, 0)
end

-- outlive renews the expiry of meta, which must outlast all logs of its account.
local function outlive(meta, horizon)
  local ttl = math.floor(2 * math.max(horizon, DAY) / 1000) + 300000 + SPARE
  if redis.call('PTTL', meta) < ttl then redis.call('PEXPIRE', meta, string.format('%.0f', ttl)) end
end

-- read_names reads the names of many budgets. Name 0 is empty: the account.
local function read_names(packed, where, many)
  local names = {[0] = ''}
  for n = 1, many do names[n], where = struct.unpack('>I2c0', packed, where) end
  return names, where
end

-- cooldowns returns the cooldowns in force by budget, or nil if there are none.
local function cooldowns(key, names, now)
  if redis.call('EXISTS', key) == 0 then return nil end
  local found
  for from = 0, #names, 1000 do
    for n, packed in ipairs(redis.call('HMGET', key, unpack(names, from, math.min(from + 999, #names)))) do
      local till = packed and struct.unpack('>I7', packed)
      if till and till > now + SLACK then -- perhaps the clock that set it was ahead
        local length = redis.call('HGET', key, string.char(LENGTH) .. names[from + n - 1])
        local long = length and struct.unpack('>I7', length)
        if long and till > now + long + SLACK then till = now + long end
      end
      if till and till > now then
        found = found or {}
        found[names[from + n - 1]] = {till = till, reason = string.sub(packed, 8)}
      end
    end
  end
  return found
end

-- items_of parses meta's coverages. Each has an id, which ends its key; flags (1: a counter, else a
-- list; 2: of the account's own log, 4: of logs with keys); a horizon; a generation of use, as in
-- decide.RecentHorizon: its begin, its longest horizon and the previous generation's; and a
-- definition. The first release wrote no FORMAT, only the first flag, and no generation: it begins
-- now.
local function items_of(packed, now)
  local items, first = {}, string.sub(packed, 1, 24) ~= FORMAT
  local where = first and 1 or 25
  while where <= #packed do
    local item = {}
    if first then
      item.id, item.flags, item.horizon, item.def, where = struct.unpack('>c12BI7I4c0', packed, where)
      item.flags, item.since, item.asked, item.before = item.flags + 6, now, item.horizon, 0
    else
      item.id, item.flags, item.horizon, item.since, item.asked, item.before, item.def, where = struct.unpack('>c12BI7I7I7I7I4c0', packed, where)
    end
    item.counter = item.flags % 2 == 1
    items[#items + 1] = item
  end
  return items
end

-- of_scope reports whether an item is of a scope: 2, the account's own log, or 4, logs with keys.
local function of_scope(item, scope) return item.flags % (2 * scope) >= scope end

-- store_newest is store for a log that keeps no entries; it deletes those from before.
local function store_newest(log, real)
  local part = math.max(math.floor(log.horizon / 16), 1000000)
  local renew = math.floor(log.was / part) ~= math.floor(log.stamp / part)
  local newest = struct.pack('>I7I6I4I2I6I4', log.stamp, log.total, 2^31, 0, 0, 0)
  if log.stored and struct.unpack('>I2', log.last, 18) == 0 then
    redis.call('LSET', log.key, '-1', newest)
    if renew then redis.call('LTRIM', log.key, '-1', '-1') end -- what was restored once
  else
    if log.stored then redis.call('DEL', log.key) end
    redis.call('RPUSH', log.key, newest)
    renew = true
  end
  if renew and real then lists().extend(log.key, log.horizon) end
  return renew
end

return {FORMAT = FORMAT, DAY = DAY, turn = turn, guard = guard, unguard = unguard, outlive = outlive, read_names = read_names,
  cooldowns = cooldowns, items_of = items_of, of_scope = of_scope, store_newest = store_newest}
