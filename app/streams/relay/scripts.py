"""What the relay executes atomically.

A run is a stream. Each of its entries is a batch (`EventBatch`), with the id `<last position>-<attempt>` and
the fields `w` (its writer), `p` (the encoded batch) and, if they are known, `t` (the times of its events).
The stream's key is also the name of its channel.
"""

APPEND = """
local publish, claims = ARGV[2], ARGV[3]
local epoch = redis.call('GET', KEYS[1])
if not epoch then
  epoch = ARGV[1]
  redis.call('SET', KEYS[1], epoch)
end
local answer = {epoch}
for i = 2, #KEYS do
  local a = (i - 2) * 7 + 3
  local expected, attempt, writer = ARGV[a + 1], tonumber(ARGV[a + 2]), ARGV[a + 3]
  local id, payload, lifetime = ARGV[a + 4], ARGV[a + 5], ARGV[a + 6]
  local times = ARGV[a + 7]
  local tail = redis.call('XREVRANGE', KEYS[i], '+', '-', 'COUNT', 1)[1]
  local last, last_attempt, last_writer = '0', attempt, writer
  if tail then
    last, last_attempt = string.match(tail[1], '(%d+)-(%d+)')
    last_attempt, last_writer = tonumber(last_attempt), tail[2][2]
  end
  local fenced = last_attempt > attempt or (last_attempt == attempt and last_writer ~= writer)
  local moved = last ~= expected
  if not fenced and not moved and payload ~= '' then
    local added
    if times == '' then
      added = redis.pcall('XADD', KEYS[i], id, 'w', writer, 'p', payload)
    else
      added = redis.pcall('XADD', KEYS[i], id, 'w', writer, 'p', payload, 't', times)
    end
    if type(added) ~= 'table' then
      redis.call('EXPIRE', KEYS[i], lifetime)
      if times ~= '' then
        redis.call(publish, KEYS[i], '+0\\n' .. times)
      end
      redis.call(publish, KEYS[i], payload)
      if last_writer ~= writer then
        redis.call(publish, claims, KEYS[i])
      end
    elseif string.find(added.err, 'equal or smaller', 1, true) then
      redis.call('DEL', KEYS[i])
      last, moved = '0', true
    else
      return added
    end
  end
  if fenced or moved then
    answer[#answer + 1] = i - 2
    answer[#answer + 1] = fenced and 1 or 0
    answer[#answer + 1] = tonumber(last)
    answer[#answer + 1] = last_writer == writer and 1 or 0
  end
end
return answer
"""
"""Append a batch to each of several runs, if the writer may and knows the stream's end.

KEYS: the key of the epoch, then a stream for each run. ARGV: an epoch, in case that there is none, the
command that publishes, the channel of claims; then for each run: the last position that the writer believes
the stream to have, its attempt, its id, the id of the new entry, the batch (empty: only check), the seconds
that the stream lives, the times of the events (empty: unknown). Returns the epoch, then four values for each
run that was refused: its index, whether a later attempt or another writer of the same one has written, the
stream's last position, and whether this writer wrote it.

A writer that follows another one is announced, so that the other one notices it also if it writes nothing.
A stream whose last entries were deleted refuses their ids for ever, so it is deleted and written anew.
"""

READ = """
local answer = {}
for i = 1, #KEYS do
  local rows, size = {1}, 0
  local found = redis.call('XRANGE', KEYS[i], ARGV[i], '+', 'COUNT', 100)
  if #found == 0 then
    rows[1] = 0
    found = redis.call('XREVRANGE', KEYS[i], '+', '-', 'COUNT', 1)
  end
  for _, entry in ipairs(found) do
    rows[#rows + 1] = entry[1]
    rows[#rows + 1] = entry[2][4] or ''
    size = size + #rows[#rows]
    rows[#rows + 1] = entry[2][6] or ''
    if size > 262144 then
      break
    end
  end
  answer[i] = rows
end
return answer
"""
"""Read several runs. KEYS: their streams. ARGV: the lowest id to read of each.

Returns for each 1 and its first entries from that id, or 0 and its last entry if there is none: id, batch,
times, …
"""
