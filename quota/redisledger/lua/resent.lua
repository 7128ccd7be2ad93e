-- Module resent: deciding a batch exactly once when answers are lost. A batch has a mode:
--     FRESH   sent for the first time. It leaves no trace but its records, which carry its id.
--     NAMED   has the caller's id, so it may have come before. The client's slot keeps its grants.
--     RESENT  a fresh batch after a lost answer. The first copy may still arrive, so the head is
--             changed and the slot written first: they reject it. Then the log is searched for the
--             batch's records, page by page back to since, keeping what is found in the slot. Then
--             the batch is decided as a named one.
--     AGAIN   a named batch after a lost answer. The slot keeps it even if it is refused.
-- The slot has the number of the last try that was decided; earlier tries that arrive late are not
-- decided. A log without entries cannot be searched, so nothing is resent to it.
-- A slot is seq 7, stamp below which to search 7 (0: done), try 2, and grants: place 4, stamp 7.

local HOUR = 3600000000

-- read parses the fields that only a repeated batch has.
local function read(packed, where, now)
  local many, since, try, next = struct.unpack('>I4I7I2', packed, where)
  local heard = since > 0 and math.min(since + SLACK, now) or now - HOUR -- the batch's records are newer
  since = math.max(math.min(since, now - SLACK), now - HOUR) -- no copy is slower, and a restamp never sets back before now
  return {many = many, since = since, heard = heard, try = try}, next
end

-- write stores a slot, which expires after REMEMBERED of real time.
local function write(slot, real, seq, upto, try, grants)
  local packed = struct.pack('>I7I7I2', seq, upto, try) .. grants
  if real then redis.call('SET', slot, packed, 'PX', REMEMBERED) else redis.call('SET', slot, packed) end
end

-- search_page looks for a batch in the page of the log before an instant. It returns the stamp
-- below which to search on (0: done; a batch's records are adjacent) and the grants found so far,
-- as in a slot; or nil if the log may have dropped the batch's records.
local function search_page(b, log, upto, have)
  local _, stop = lists().locate(log, upto)
  local from, left = math.max(0, stop - 250), 0
  local found, others, dropped = {}, false, false
  for n, record in ipairs(stop > 0 and redis.call('LRANGE', log.key, from, stop - 1) or {}) do
    local stamp, _, _, label, client, number = struct.unpack('>I7I6I4I2I6I4', record)
    local place = (number - b.seq) % 2^32
    local ours = client == b.client and place < b.copy.many
    if ours then found[#found + 1] = struct.pack('>I4I7', place, stamp) end
    if n == 1 then
      others = not ours
      if from > 0 and stamp > b.copy.since then left = stamp end
    end
    if label == 0 and stamp > b.copy.heard then dropped = true end
  end
  local any = #found > 0 or #have > 0
  if dropped and not any then return nil end
  if others and any then left = 0 end
  return left, have .. table.concat(found)
end

-- granted_before returns the stamps of a batch's earlier grants, by place, and these as in a slot.
-- If the batch must not be decided, or not yet, it returns nil and the answer.
local function granted_before(b, log, slot)
  local is_resent = b.mode == 2
  local packed, try = redis.call('GET', slot), b.copy and b.copy.try or 0
  if not packed and not is_resent then return {}, '' end
  local last, upto, tries, have = -1, 0, 0, string.sub(packed or '', 17)
  if packed then last, upto, tries = struct.unpack('>I7I7I2', packed) end
  if packed and last ~= b.seq and b.once then return nil, '\9' end
  if last > b.seq or last == b.seq and b.mode == 0 then return nil, '\3' end
  if last == b.seq and tries > try then return nil, struct.pack('>BI2', 5, tries) end
  if last < b.seq then
    if not is_resent then return {}, '' end
    upto, have = log.stamp + 1, ''
  end
  if upto > 0 then
    upto, have = search_page(b, log, upto, have)
    if not upto then return nil, '\6' end
    write(slot, b.real, b.seq, upto, try, have)
    if upto > 0 then return nil, '\4' end
  end
  local before = {}
  for where = 1, #have, 11 do
    local place, stamp = struct.unpack('>I4I7', have, where)
    before[place] = stamp
  end
  return before, have
end

return {read = read, write = write, granted_before = granted_before}
