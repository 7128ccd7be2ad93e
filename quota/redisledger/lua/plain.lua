-- Decides the common batch in a straight line: sliding and daily windows over lists
-- that are there. Whatever is out of the ordinary, a mistake too, makes plain return
-- nothing before anything is written, and spend.lua, which says what all of this
-- means, decides the whole batch again. Functions and numbers are handed in
-- because a local is the quickest that Lua knows.

local function plain(call, pack, unpacked, keys, head, mode, batch, time, begins, base, counts)
  -- The first charge follows, or if there is none a group of as many bytes.
  local client, seq, horizon, ncharges, ngroups, kind, source, length, limit, where =
    unpacked('>I6I7I7I2I2BBI7I6', batch, 14)
  local now
  if time then
    if #time ~= 7 then return end
    now = unpacked('>I7', time)
  else
    now = call('TIME')
    now = now[1] * 1000000 + now[2]
  end
  local nsources, slot = #keys - 2, nil
  if mode ~= FRESH then
    nsources, slot = nsources - 2, keys[#keys]
    if mode ~= WATCHED and mode ~= NAMED then return end
    if string.byte(head, 12) ~= 0 then
      if call('EXISTS', keys[#keys - 1]) ~= 0 or tonumber(call('HGET', keys[1], 'guard') or '0') < now then return end
    end
    local last = call('GET', slot)
    if last and unpacked('>I7', last) >= seq then return end
  end

  local key = keys[2]
  local last = call('LINDEX', key, '-1')
  if not last then return end
  local stamp, total = unpacked('>I7I6', last)

  local log = {key = key, horizon = horizon, stamp = stamp, total = total, was = stamp, count = 0, pending = false, stored = true}
  local charges, lists, locate, fits_at = {}, {[0] = log}, nil, nil
  for n = 1, ncharges do
    if n > 1 then kind, source, length, limit, where = unpacked('>BBI7I6', batch, where) end
    local c = {kind = kind, list = source, length = length, limit = limit, since = 0, before = 0, place = 0, told = 0}
    if kind == SLIDING and length >= 1000 then
      c.since = now - length + 1
    elseif kind == DAILY then
      c.start, c.since, c.opens, c.next, c.reopens, where = unpacked('>I7I7I7I7I7', batch, where)
      if now < c.start or now >= c.opens then return pack('>BI7', 2, now) end
    else
      return
    end
    if limit < 1 or limit >= WRAP / 2 then return end
    charges[n] = c
  end
  if ncharges == 0 then where = where - 15 end
  for n = 1, nsources do
    local counter, calls, kept
    counter, calls, kept, where = unpacked('>BBI7', batch, where)
    if counter ~= 0 then return end
    -- With all that it will have: a table that grows is made anew.
    lists[n] = {key = keys[n + 2], calls = calls == 1, horizon = kept, count = 0, pending = false, stamp = 0, total = 0, was = 0,
      first = false, begins = false, before = 0, amount = 0, fed = 0}
  end
  for n = 1, ncharges do
    local c = charges[n]
    local list, since = lists[c.list], c.since
    if not list then return end
    if not list.stored then
      last = call('LINDEX', list.key, '-1')
      if not last then return end
      list.stamp, list.total = unpacked('>I7I6', last)
      list.was, list.stored = list.stamp, true
    end
    if list.begins then -- known
    elseif begins and list == log then
      list.begins, list.before, list.amount = begins, base, counts
    else
      list.first = call('LINDEX', list.key, '0')
      local stamp, sum, amount = unpacked('>I7I6I4', list.first)
      amount = amount % NOCALL
      list.begins, list.before, list.amount = stamp, (sum - amount) % WRAP, amount
    end
    c.list = list
    if list.begins >= since then
      c.before = list.before
    elseif list.stamp < since then
      c.before, c.place = list.total, nil
    else
      if not locate then locate, fits_at = core() end
      c.before, c.place = locate(list, since)
    end
  end

  local records, count, answer, several = nil, 0, nil, nil
  local granted = mode == NAMED and {}
  if stamp < now then stamp = now - 1 end
  for group = 1, ngroups do
    local label, units, place, times, nfeeds, nmine
    label, units, place, times, nfeeds, nmine, where = unpacked('>I2I4I4I2BI2', batch, where)
    local feeds, mine, numbers = lists, charges, nil
    if nfeeds == 255 then
      nfeeds = nsources
    elseif nfeeds > 0 then
      feeds = {}
      for n = 1, nfeeds do
        local which
        which, where = unpacked('>B', batch, where)
        feeds[n] = lists[which]
      end
    end
    if nmine == 65535 then
      nmine = ncharges
    elseif nmine > 0 then
      mine, numbers = {}, {}
      for n = 1, nmine do
        numbers[n], where = unpacked('>I2', batch, where)
        mine[n] = charges[numbers[n]]
        if not mine[n] then return end
      end
    end
    if place >= NOCALL then return end
    if units >= NOCALL then
      units, nmine = units - NOCALL, 0
    elseif units < 1 then
      return
    end
    if label < 1 or times < 1 or total % BLOCK + units * times >= BLOCK then return end

    -- All in a group are the same, so once one is refused the others are.
    local fit, latest, said = times, 0, nil
    for n = 1, nfeeds do feeds[n].fed = group end
    log.fed = group
    for n = 1, nmine do
      local c = mine[n]
      local list = c.list
      local amount = list.calls and 1 or units
      if amount > c.limit then return end
      local left = c.limit - (list.total - c.before) % WRAP
      if left < amount then
        fit = 0
      elseif amount * fit > left and list.fed == group then
        fit = (left - left % amount) / amount
      end
    end
    if fit > 0 and not records then
      records = {}
      log.pending = records
    end
    for n = 1, fit do
      stamp, total, count = stamp + 1, (total + units) % WRAP, count + 1
      records[count] = pack('>I7I6I4I2I6I4', stamp, total, units, label, client, (seq + place + n - 1) % SEQ)
      if granted then granted[count] = pack('>I4I7', place + n - 1, stamp) end
    end
    if fit > 0 then
      log.stamp, log.total, log.count = stamp, total, count
      for n = 1, nfeeds do
        local list = feeds[n]
        if list.stored == nil then
          last = call('LINDEX', list.key, '-1')
          list.stored = last and true
          if last then
            list.stamp, list.total = unpacked('>I7I6', last)
            list.was = list.stamp
          end
        end
        if list.stored then
          local sum, had, pending, amount = list.total, list.count, list.pending or {}, list.calls and 1 or units
          list.pending = pending
          for m = 1, fit do
            sum = (sum + amount) % WRAP
            pending[had + m] = pack('>I7I6I4', stamp - fit + m, sum, amount)
          end
          list.stamp, list.total, list.count = stamp, sum, had + fit
        end
      end
    end
    if fit == times and ngroups == 1 then
      answer = pack('>BI7BI4I7', 0, now, 0, fit, stamp - fit + 1)
    elseif fit == times then
      said = pack('>BI4I7', 0, fit, stamp - fit + 1)
    else
      local number, held
      for n = 1, nmine do
        local c = mine[n]
        local list = c.list
        local amount = list.calls and 1 or units
        local used = (list.total - c.before) % WRAP
        local short, again = used + amount - c.limit, 0
        if short > 0 then
          if c.place == nil then return end
          if c.kind == SLIDING and c.place == 0 and short <= list.amount then again = list.begins + c.length end
          if again == 0 then
            if not fits_at then locate, fits_at = core() end
            again = fits_at(c, short, amount)
          end
        end
        if again > latest then latest, number, held = again, numbers and numbers[n] or n, used end
      end
      if fit == 0 and ngroups == 1 then
        answer = pack('>BI7BI4I2I7I7', 0, now, 1, times, number, held, latest)
      else
        said = pack('>BI4I2I7I7', 1, times - fit, number, held, latest)
        if fit > 0 then said = pack('>BI4I7', 0, fit, stamp - fit + 1) .. said end
      end
    end
    if said then
      several = several or {pack('>BI7', 0, now)}
      several[#several + 1] = said
    end
  end
  answer = answer or table.concat(several)
  if count == 0 then return answer end

  if count > 1000 then return end
  for n = 0, nsources do
    local list = lists[n]
    if list.count > 0 then
      local part = list.horizon / 16
      part = part < 1000000 and 1000000 or part - part % 1
      if list.stamp - list.stamp % part ~= list.was - list.was % part then return end
      if list.begins and list.begins <= now - list.horizon * 1.015625 - SLACK then return end
    end
  end
  if count == 1 then call('RPUSH', key, records[1]) else call('RPUSH', key, unpack(records)) end
  for n = 1, nsources do
    local list = lists[n]
    if list.count == 1 then
      call('RPUSH', list.key, list.pending[1])
    elseif list.count > 0 then
      call('RPUSH', list.key, unpack(list.pending))
    end
  end
  if granted then
    local said = pack('>I7I7I2', seq, 0, 0) .. table.concat(granted)
    if time then call('SET', slot, said) else call('SET', slot, said, 'PX', '600000') end
  end
  return answer
end

local stored, batch, time = call('HGET', KEYS[1], 'head'), ARGV[1], ARGV[2]
local head, mode = unpacked('>c12B', batch)
local have, begins, base, amount = stored, nil, nil, nil
if stored and #stored == 29 then have, begins, base, amount = unpacked('>c12I7I6I4', stored) end
if have ~= head then return '\1' end
if mode >= KEYED then mode, begins = mode - KEYED, nil end
local decided = plain(call, pack, unpacked, KEYS, head, mode, batch, time, begins, base, amount)
if decided then return decided end
