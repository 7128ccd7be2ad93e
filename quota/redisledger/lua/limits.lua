-- Module limits: the limits that were asked of an account's budgets lately. meta's limits holds, for
-- each, the identity of the budget 1 + n, how many 1, and of each its configuration 16, when that
-- was changed 7, the limit 6 and when it ends 7, by limit. See decide.Record, which does the same.

local HOLD, RECORD = 86400000000, 900000000 -- quota.LimitHold and LimitRecord
local MOST = 32 -- decide.MaxAsked

local function read(packed)
  local all, where = {}, 1
  while where <= #packed do
    local budget, many
    budget, many, where = struct.unpack('>Bc0B', packed, where)
    local asked = {}
    for n = 1, many do
      asked[n] = {}
      asked[n].config, asked[n].changed, asked[n].limit, asked[n].till, where = struct.unpack('>c16I7I6I7', packed, where)
    end
    all[#all + 1], all[budget] = budget, asked
  end
  return all
end

local function before(x, y)
  if x.limit ~= y.limit then return x.limit < y.limit end
  if x.till ~= y.till then return x.till > y.till end
  return x.config < y.config
end

-- record records what is asked now, and drops what has ended or was replaced. Without want it only
-- drops.
local function record(asked, want, now)
  local kept, add, till = {}, want, now + HOLD + RECORD
  for _, a in ipairs(asked) do
    local same = want and a.config == want.config
    if a.till > till + RECORD then a.till = till end -- the clock was ahead
    if same and a.changed == want.changed and a.limit == want.limit then
      add = nil
      if a.till < now + HOLD then a.till = till end
    end
    if same and a.changed > want.changed then add = nil end
    if a.till > now and not (same and a.changed < want.changed) then kept[#kept + 1] = a end
  end
  if add then
    add.till = till
    kept[#kept + 1] = add
  end
  table.sort(kept, before)
  for n = #kept, MOST + 1, -1 do kept[n] = nil end
  return kept
end

-- values returns the different limits of a budget, as a text.
local function values(asked)
  local all = {}
  for n, a in ipairs(asked) do
    if n == 1 or asked[n - 1].limit ~= a.limit then all[#all + 1] = string.format('%.0f', a.limit) end
  end
  return table.concat(all, ' ')
end

-- renew adds what is wanted, identity 1 + n, configuration 16, when that was changed 7 and limit 6
-- each, to the packed limits. It also reports whether clients must learn them again.
local function renew(packed, wanted, now)
  local all, was, parts, changed, where = read(packed), {}, {}, false, 1
  for _, budget in ipairs(all) do
    was[budget] = values(all[budget])
    all[budget] = record(all[budget], nil, now)
  end
  while where <= #wanted do
    local budget, want = nil, {}
    budget, want.config, want.changed, want.limit, where = struct.unpack('>Bc0c16I7I6', wanted, where)
    if want.limit < 1 then error('ration: bad argument: limit') end
    if not all[budget] then all[#all + 1] = budget end
    all[budget] = record(all[budget] or {}, want, now)
  end
  for _, budget in ipairs(all) do
    local kept = all[budget]
    changed = changed or (was[budget] or '') ~= values(kept)
    if kept[1] then parts[#parts + 1] = struct.pack('>Bc0B', #budget, budget, #kept) end
    for _, a in ipairs(kept) do parts[#parts + 1] = struct.pack('>c16I7I6I7', a.config, a.changed, a.limit, a.till) end
  end
  return table.concat(parts), changed
end

return {renew = renew}
