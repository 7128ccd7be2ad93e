-- Decides what is most common: one call, or several that are the same, of the account's
-- own log, charged to sliding windows over all of it. What a window holds is the total
-- of the log's last record less the total before the first that it sees. That is the
-- log's first, of which meta tells beside head (see learn.lua); or it is near where the
-- client last heard that it was, and is looked for there. Anything else is left to plain.lua.

local stored, batch, time = call('HGET', KEYS[1], 'head'), ARGV[1], ARGV[2]
local head, mode, units, times, windows, length, limit, hint, where = unpacked('>c12BI4I2BI7I6I4', batch)
local have, begins, base, amount = stored, nil, nil, nil
if stored and #stored == 29 then have, begins, base, amount = unpacked('>c12I7I6I4', stored) end
if have ~= head then return '\1' end
local keyed = mode >= KEYED
if keyed then mode, begins = mode - KEYED, nil end
local hinted, plainly = mode == SINGLE, true
if hinted then
  local key = KEYS[2]
  local last = begins and units >= 1 and units < NOCALL and times >= 1 and windows >= 1
    and not (time and #time ~= 7) and call('LINDEX', key, '-1')
  if last then
    local stamp, total = unpacked('>I7I6', last)
    local now
    if time then
      now = unpacked('>I7', time)
    else
      now = call('TIME')
      now = now[1] * 1000000 + now[2]
    end
    local window, latest, number, held, places = 1, 0, 0, 0, nil
    while window <= windows do
      if window > 1 then length, limit, hint, where = unpacked('>I7I6I4', batch, where) end
      if length < 1000 or units > limit or limit >= WRAP / 2 then break end
      local edge, place, first, before, counts = now - length, 0, begins, base, amount
      if stamp <= edge then
        place, before = hint, total -- it is empty
      elseif begins <= edge then
        local near = hint > 0 and call('LRANGE', key, hint - 1, hint + 1) or {}
        if not near[2] or unpacked('>I7', near[1]) > edge then break end
        place, first, before, counts = hint, unpacked('>I7I6I4', near[2])
        if first <= edge then
          if not near[3] then break end
          place, first, before, counts = hint + 1, unpacked('>I7I6I4', near[3])
          if first <= edge then break end
        end
        counts = counts % NOCALL
        before = before - counts
      end
      if place > 0 then
        places = (places or string.rep('\0\0\0\0', window - 1)) .. pack('>I4', place)
      elseif places then
        places = places .. '\0\0\0\0'
      end
      local used = (total - before) % WRAP
      local short = used + units - limit
      if short > 0 then
        local again = 0
        if short <= counts then -- the oldest makes way enough
          again = first + length
        elseif counts > 0 then -- perhaps all count as much as the oldest
          local guess = (short - 1 - (short - 1) % counts) / counts + place
          local two = call('LRANGE', key, guess - 1, guess)
          if not two[2] then break end
          local _, below = unpacked('>I7I6', two[1])
          local reached, above = unpacked('>I7I6', two[2])
          if (below - before) % WRAP >= short or (above - before) % WRAP < short then break end
          again = reached + length
        end
        if again == 0 then break end
        if again > latest then latest, number, held = again, window, used end
      elseif short + units * (times - 1) > 0 then
        break -- some fit
      end
      window = window + 1
    end
    if window <= windows then
      -- not so common
    elseif latest > 0 then
      local answer = pack('>BI7BI4I2I7I7', 0, now, 1, times, number, held, latest)
      return places and answer .. places or answer
    elseif times <= 1000 and total % BLOCK + units * times < BLOCK then
      local label, client, seq, horizon = unpacked('>I2I6I7I7', batch, where)
      local first, part = stamp < now and now or stamp + 1, horizon / 16
      part = part < 1000000 and 1000000 or part - part % 1
      if label < 1 or stamp - stamp % part ~= first + times - (first + times) % part
        or begins <= now - horizon * 1.015625 - SLACK then
        plainly = false -- mistaken, or time to renew the log's life, or to trim it: that is for spend.lua
      else
        if times == 1 then
          call('RPUSH', key, pack('>I7I6I4I2I6I4', first, (total + units) % WRAP, units, label, client, seq % SEQ))
        else
          local records = {}
          for n = 1, times do
            records[n] = pack('>I7I6I4I2I6I4', first + n - 1, (total + units * n) % WRAP, units, label, client, (seq + n - 1) % SEQ)
          end
          call('RPUSH', key, unpack(records))
        end
        local answer = pack('>BI7BI4I7', 0, now, 0, times, first)
        return places and answer .. places or answer
      end
    end
  end
  -- What follows reads the long form.
  if windows < 1 then error('ration: bad argument: windows') end
  local charges, label, client, seq, horizon = {}, nil, nil, nil, nil
  where = 21
  for n = 1, windows do
    length, limit, hint, where = unpacked('>I7I6I4', batch, where)
    charges[n] = pack('>BBI7I6', SLIDING, 0, length, limit)
  end
  label, client, seq, horizon = unpacked('>I2I6I7I7', batch, where)
  mode, where = FRESH, 14
  batch = head .. pack('>BI6I7I7I2I2', mode, client, seq, horizon, windows, 1) .. table.concat(charges)
    .. pack('>I2I4I4I2BI2', label, units, 0, times, 255, 65535) .. string.rep('\0\0', windows)
end
