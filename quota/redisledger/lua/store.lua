-- How lists and counters are filled, fed and written.

-- push adds a record to a list, pending.
local function push(list, stamp, amount)
  list.stamp, list.total, list.count = stamp, (list.total + amount) % WRAP, list.count + 1
  list.pending[list.count] = pack('>I7I6I4', stamp, list.total, amount)
end

-- tick adds an amount to a counter, pending.
local function tick(counter, stamp, amount)
  counter.start, counter.present, counter.before = periods(counter, stamp)
  counter.present, counter.changed = counter.present + amount, true
end

-- fill makes a list or counter that is not there say what the log says, pending.
local function fill(source, log, labels, def, now)
  if source.counter then
    source.changed = true
    local since = now - keep(2 * source.length)
    gather(log, labels, def, since, function(stamp, amount) tick(source, stamp, amount) end)
    return
  end
  gather(log, labels, def, now - keep(source.horizon), function(stamp, amount) push(source, stamp, amount) end)
  if source.count == 0 then push(source, 0, 0) end
end

-- full reports whether one more amount would make a list hold more than its totals
-- can tell apart, or a counter more than it can count. It looks only when the total
-- enters another block of 2^40.
local function full(list, amount)
  if list.counter then return list.present + amount >= WRAP / 2 end
  if floor((list.total + amount) / BLOCK) == floor(list.total / BLOCK) or size(list) == 0 then return false end
  local _, total, counted = at(list, 0)
  return (list.total - total + counted) % WRAP + amount > WRAP - 2 * BLOCK
end

-- lives renews a key's life: two horizons and some minutes, on real time.
local function lives(key, horizon)
  call('PEXPIRE', key, string.format('%.0f', floor(2 * horizon / 1000) + 300000))
end

-- extend is lives for meta, which must outlast all logs of its account.
local function extend(meta, horizon)
  local life = floor(2 * max(horizon, DAY) / 1000) + 300000
  if call('PTTL', meta) < life then call('PEXPIRE', meta, string.format('%.0f', life)) end
end

-- begins reports whether a new sixteenth of the horizon has begun since the list's
-- last record: often enough to renew a key's life, and to trim what nobody asks for.
local function begins(list)
  local part = max(floor(list.horizon / 16), 1000000)
  return not list.stored or floor(list.was / part) ~= floor(list.stamp / part)
end

-- store writes what is pending and drops what no window can see any more. It
-- reports whether the key's life was due.
local function store(list, now, real)
  if list.count == 0 then return false end
  local due, edge, cut = begins(list), now - keep(list.horizon), 0
  if list.stored and (due or list.first) and at(list, 0) <= edge and list.stamp > edge then
    if list.was <= edge then cut = size(list) - list.count else cut = select(2, locate(list, edge + 1)) end
  end
  for n = 1, list.count, 1000 do
    call('RPUSH', list.key, unpack(list.pending, n, min(n + 999, list.count)))
  end
  if cut > 0 then call('LTRIM', list.key, string.format('%.0f', cut), '-1') end
  if due and real then lives(list.key, list.horizon) end
  return due
end

-- store_newest writes the newest stamp of a log that keeps no entries, and drops
-- those that it kept. It reports whether the key's life was due.
local function store_newest(log, real)
  local due, record = begins(log), pack('>I7I6I4I2I6I4', log.stamp, log.total, NOCALL, 0, 0, 0)
  if log.newest then
    call('LSET', log.key, '0', record)
  else
    if log.stored then call('DEL', log.key) end
    call('RPUSH', log.key, record)
    due = true
  end
  if due and real then lives(log.key, log.horizon) end
  return due
end

local function store_counter(counter, real)
  if not counter.changed then return end
  call('SET', counter.key, pack('>I7I6I6', counter.start, counter.present, counter.before), 'KEEPTTL')
  if real and (not counter.stored or counter.start ~= counter.was) then lives(counter.key, 2 * counter.length) end
end
