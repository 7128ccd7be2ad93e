-- Decides the common batch in a straight line: windows of every kind over lists
-- and counters that are there. Whatever is out of the ordinary, a mistake too,
-- makes plain return nothing before anything is written, and spend.lua, which says
-- what all of this means, decides the whole batch again. Functions and numbers
-- are handed in because a local is the quickest that Lua knows.

local function plain(call, pack, unpacked, keys, nkeys, head, mode, counting, batch, time)
  -- The first charge follows, or if there is none a group, and behind it as many bytes at least.
  local client, seq, horizon, ncharges, ngroups, kind, source, length, limit, hint, where =
    unpacked('>I6I7I7I2I2BBI7I6I4', batch, 14)
  local now
  if time then
    if #time ~= 7 then return end
    now = unpacked('>I7', time)
  else
    now = call('TIME')
    now = now[1] * 1000000 + now[2]
  end
  local nsources, slot = nkeys - 2, nil
  if mode ~= FRESH then
    nsources, slot = nsources - 2, keys[nkeys]
    if mode ~= WATCHED and mode ~= NAMED then return end
    if string.byte(head, 12) ~= 0 then
      if call('EXISTS', keys[nkeys - 1]) ~= 0 or tonumber(call('HGET', keys[1], 'guard') or '0') < now then return end
    end
    local last = call('GET', slot)
    if last and unpacked('>I7', last) >= seq then return end
  end

  local key = keys[2]
  local last = call('LINDEX', key, '-1')
  if not last then return end
  local stamp, total, counts, of = unpacked('>I7I6I4I2', last)
  if stamp > now + SLACK or counting and of ~= 0 then return end

  local log = {key = key, horizon = horizon, stamp = stamp, total = total, was = stamp, count = 0, pending = false, stored = true}
  local charges, lists, locate, fits_at, reach, _ = {}, {[0] = log}, nil, nil, nil, nil
  for n = 1, ncharges do
    if n > 1 then kind, source, length, limit, hint, where = unpacked('>BBI7I6I4', batch, where) end
    local c = {kind = kind, list = source, length = length, limit = limit, hint = hint, since = 0, before = 0, place = 0, first = 0, counts = 0,
      held = 0, frees = false, told = 0}
    if kind == SLIDING and length >= 1000 then
      c.since = now - length + 1
    elseif kind == DAILY then
      c.start, c.since, c.opens, c.next, c.reopens, where = unpacked('>I7I7I7I7I7', batch, where)
      if now < c.start or now >= c.opens then return pack('>BI7', 2, now) end
    elseif kind ~= COUNTER or length < 1000 then
      return
    end
    if limit < 1 or limit >= WRAP / 2 then return end
    charges[n] = c
  end
  if ncharges == 0 then where = where - 19 end
  local several, moved = false, false -- there are counters; a window begins where the process does not know
  for n = 1, nsources do
    local counter, calls, kept
    counter, calls, kept, where = unpacked('>BBI7', batch, where)
    several = several or counter ~= 0
    -- With all that it will have: a table that grows is made anew.
    lists[n] = {key = keys[n + 2], counter = counter ~= 0, calls = calls == 1, horizon = kept, count = 0, pending = false, stamp = 0,
      total = 0, was = 0, first = false, begins = false, before = 0, amount = 0, opened = false, fed = 0}
  end

  -- count reads a counter, whose total is that of its present period, and
  -- reports whether it may go on.
  local count = several and function(list)
    local packed = call('GET', list.key)
    if not packed then return false end
    list.stored, list.stamp, list.total, list.past = true, unpacked('>I7I6I6', packed)
    return list.stamp >= now - now % list.horizon
  end
  for n = 1, ncharges do
    local c = charges[n]
    local list, since = lists[c.list], c.since
    if not list or (c.kind == COUNTER) ~= (list.counter or false) then return end
    if list.counter then
      if not list.stored and not count(list) then return end
      -- What the period before still shows is taken for what stands before a list.
      local shown = list.past * (list.stamp + c.length - (list.stamp > now and list.stamp or now))
      if shown >= EXACT or c.length ~= list.horizon then return end
      local rest = math.fmod(shown, c.length)
      shown = (shown - rest) / c.length
      c.before = -(rest > 0 and shown + 1 or shown)
    else
      if not list.stored then
        last = call('LINDEX', list.key, '-1')
        if not last then return end
        list.stamp, list.total = unpacked('>I7I6', last)
        list.was, list.stored = list.stamp, true
      end
      -- The process heard where the window began, or begins behind the list's first record.
      local near = c.hint > 0 and list.stamp >= since and call('LRANGE', list.key, c.hint - 1, c.hint + 1) or {}
      local found = near[2] and unpacked('>I7', near[1]) < since
      if found then
        local sum
        c.place = c.hint
        c.first, sum, c.counts = unpacked('>I7I6I4', near[2])
        if c.first < since then
          found = near[3]
          if found then c.place, c.first, sum, c.counts = c.hint + 1, unpacked('>I7I6I4', near[3]) end
        end
        c.counts = c.counts % NOCALL
        c.before = (sum - c.counts) % WRAP
      end
      if found and c.first >= since then
        -- it begins there
      elseif list.stamp < since then
        c.before, c.place = list.total, nil
      else
        if not list.begins then
          list.first = call('LINDEX', list.key, '0')
          local stamp, sum, amount = unpacked('>I7I6I4', list.first)
          amount = amount % NOCALL
          list.begins, list.before, list.amount = stamp, (sum - amount) % WRAP, amount
        end
        if list.begins >= since then
          c.place, c.before, c.first, c.counts = 0, list.before, list.begins, list.amount
        else
          if not locate then locate, fits_at, _, _, _, reach = core() end
          c.before, c.place, c.first, c.counts = locate(list, since, c.hint > 0 and c.hint or nil)
        end
      end
      moved = moved or c.place and c.place ~= c.hint
    end
    c.list, c.held = list, (list.total - c.before) % WRAP
  end

  local records, granted, answer, said = nil, 0, nil, nil
  local slotted = mode == NAMED and {}
  if stamp < now then stamp = now - 1 end
  for group = 1, ngroups do
    local label, units, place, times, nfeeds, nmine
    label, units, place, times, nfeeds, nmine, where = unpacked('>I2I4I4I2BI2', batch, where)
    if place >= NOCALL then return end
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
    local forced = units >= NOCALL
    if forced then units = units - NOCALL elseif units < 1 then return end
    if label < 1 or times < 1 or total % BLOCK + units * times >= BLOCK then return end

    -- All in a group are the same, so once one is refused the others are.
    local fit, first = times, stamp + 1
    for n = 1, nfeeds do feeds[n].fed = group end
    for n = 1, nmine do
      local list = mine[n].list
      local amount = list.calls and 1 or units
      if forced then
        -- whatever the limits say
      elseif amount > mine[n].limit then
        return
      else
        local left = mine[n].limit - (list.total - mine[n].before) % WRAP
        if left < amount then
          fit = 0
        elseif amount * fit > left and (list.fed == group or list == log) then
          fit = (left - left % amount) / amount
        end
      end
    end
    if fit > 0 then
      stamp, granted = stamp + fit, granted + fit
      log.stamp, log.count = stamp, granted
      if slotted then
        for n = 1, fit do slotted[granted - fit + n] = pack('>I4I7', place + n - 1, first + n - 1) end
      end
      if not counting then
        records = records or {}
        log.pending = records
        for n = 1, fit do
          total = (total + units) % WRAP
          records[granted - fit + n] = pack('>I7I6I4I2I6I4', first + n - 1, total, units, label, client, (seq + place + n - 1) % SEQ)
        end
        log.total = total
        if units > 0 then log.opened = log.opened or first end
      end
      for n = 1, nfeeds do
        local list = feeds[n]
        local amount, had, sum = list.calls and 1 or units, list.count, nil
        if list.stored == nil and list.counter then
          if not count(list) then
            if list.stored then return end
            list.stored = false -- it is filled when it is charged
          end
        elseif list.stored == nil then
          last = call('LINDEX', list.key, '-1')
          list.stored = last and true
          if last then
            list.stamp, list.total = unpacked('>I7I6', last)
            list.was = list.stamp
          end
        end
        sum = list.total
        if not list.stored then
          -- nobody asks for it
        elseif list.counter then
          -- The last stamp may begin another period.
          if sum + amount * fit >= BLOCK or stamp >= list.stamp + list.horizon then return end
          list.total, list.count = sum + amount * fit, had + fit
        else
          local pending = list.pending or {}
          list.pending = pending
          for m = 1, fit do
            sum = (sum + amount) % WRAP
            pending[had + m] = pack('>I7I6I4', first + m - 1, sum, amount)
          end
          list.stamp, list.total, list.count = stamp, sum, had + fit
          if amount > 0 then list.opened = list.opened or first end
        end
      end
      -- What each window holds after the first of the group, and when it frees.
      local held, values = nmine == 1 and 'I7I7' or string.rep('I7I7', nmine), {}
      if several then held = '' end
      for n = 1, nmine do
        local c = mine[n]
        local list = c.list
        local later = (list == log or list.fed == group) and (list.calls and 1 or units) * (fit - 1) or 0
        if list.counter then
          held = held .. 'I7I7I7'
          values[#values + 1] = list.stamp
          values[#values + 1] = list.total - later
          values[#values + 1] = list.past
        else
          local used, free = (list.total - c.before - later) % WRAP, 0
          if used == 0 then
            -- nothing to return
          elseif c.kind == DAILY then
            if list.stamp >= c.next then return end
            free = c.opens
          elseif c.held == 0 then
            free = list.opened + c.length
          elseif c.counts > 0 then
            free = c.first + c.length
          else
            if not reach then locate, fits_at, _, _, _, reach = core() end
            c.frees = c.frees or reach(list, c.place, c.before, 1)
            free = c.frees + c.length
          end
          if several then held = held .. 'I7I7' end
          values[#values + 1] = used
          values[#values + 1] = free
        end
      end
      if ngroups == 1 and fit == times then
        answer = pack('>BI7BI4I7' .. held, 0, now, 0, fit, first, unpack(values))
      else
        said = said or {pack('>BI7', 0, now)}
        said[#said + 1] = pack('>BI4I7' .. held, 0, fit, first, unpack(values))
      end
    end
    if fit < times then
      local number, used, latest = nil, nil, 0
      for n = 1, nmine do
        local c = mine[n]
        local list = c.list
        local amount = list.calls and 1 or units
        local now_used = (list.total - c.before) % WRAP
        local short, again = now_used + amount - c.limit, 0
        if short > 0 then
          if list.counter or c.place == nil then return end
          if c.kind == SLIDING and c.held >= short and short <= c.counts then
            again = c.first + c.length
          else
            if not fits_at then locate, fits_at, _, _, _, reach = core() end
            again = fits_at(c, short, amount)
          end
        end
        if again > latest then latest, number, used = again, numbers and numbers[n] or n, now_used end
      end
      if fit == 0 and ngroups == 1 then
        answer = pack('>BI7BI4I2I7I7', 0, now, 1, times, number, used, latest)
      else
        said = said or {pack('>BI7', 0, now)}
        said[#said + 1] = pack('>BI4I2I7I7', 1, times - fit, number, used, latest)
      end
    end
  end
  answer = answer or table.concat(said)
  if moved then
    local places = {}
    for n = 1, ncharges do places[n] = pack('>I4', charges[n].place or 0) end
    answer = answer .. table.concat(places)
  end
  if granted == 0 then return answer end

  if granted > 1000 then return end
  for n = 0, nsources do
    local list = lists[n]
    if list.count > 0 and not list.counter then
      local part = list.horizon / 16
      part = part < 1000000 and 1000000 or part - part % 1
      if list.stamp - list.stamp % part ~= list.was - list.was % part then return end
      if list.begins and list.begins <= now - list.horizon * 1.140625 - SLACK then return end
    end
  end
  if counting then
    call('LSET', key, '0', pack('>I7I6I4I2I6I4', stamp, total, NOCALL, 0, 0, 0))
  elseif granted == 1 then
    call('RPUSH', key, records[1])
  else
    call('RPUSH', key, unpack(records))
  end
  for n = 1, nsources do
    local list = lists[n]
    if list.count > 0 and list.counter then
      call('SET', list.key, pack('>I7I6I6', list.stamp, list.total, list.past), 'KEEPTTL')
    elseif list.count == 1 then
      call('RPUSH', list.key, list.pending[1])
    elseif list.count > 0 then
      call('RPUSH', list.key, unpack(list.pending))
    end
  end
  if slotted then
    local all = pack('>I7I7I2', seq, 0, 0) .. table.concat(slotted)
    if time then call('SET', slot, all) else call('SET', slot, all, 'PX', '600000') end
  end
  return answer
end

local stored, batch, time = call('HGET', KEYS[1], 'head'), ARGV[1], ARGV[2]
local head, mode = unpacked('>c12B', batch)
if (stored and string.sub(stored, 1, 12)) ~= head then return '\1' end
local nkeys, long = #KEYS, mode >= LONG
if time == '' then time = nil end
if long then mode, nkeys = mode - LONG, nkeys - 1 end
local counting = mode >= COUNTING
if counting then mode = mode - COUNTING end
local decided = plain(call, pack, unpacked, KEYS, nkeys, head, mode, counting, batch, time)
if decided then return decided end
