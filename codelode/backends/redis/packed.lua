-- Lists packed into one value. Entries have a fixed width and start with an id (u32, little endian).
--
-- A list is a field (ID or NAME) of a hash. A list that outgrows LIMIT moves to a separate hash, a
-- hub, in parts by id / 512. The set `:hubs` has all hubs. Otherwise each of the 20,000
-- importers of a file would rewrite the whole list, also in the append-only file. A hub never moves
-- back.
local LIMIT, PART = 1000, 512  -- bytes, ids
local base = KEYS[1]

local function id_of(entry) return (struct.unpack('<I4', entry)) end
local function hub(field) return base .. ':hub:' .. field end
local function part(entry) return math.floor(id_of(entry) / PART) end

-- Most repositories have no hub: checking this once saves a command for each new entry.
local some_hub = nil
local function is_hub(field)
  if some_hub == nil then some_hub = redis.call('EXISTS', base .. ':hubs') == 1 end
  return some_hub and redis.call('EXISTS', hub(field)) == 1
end

local function position(list, entry)
  local at = string.find(list, entry, 1, true)
  while at and (at - 1) % #entry ~= 0 do at = string.find(list, entry, at + 1, true) end
  return at
end

local function read_list(key, field)
  return redis.call('HGET', key, field) or table.concat(redis.call('HVALS', hub(field)))
end

local function move_to_hub(key, field, list, width)
  local parts = {}
  for at = 1, #list, width do
    local entry = string.sub(list, at, at + width - 1)
    local number = part(entry)
    parts[number] = (parts[number] or '') .. entry
  end
  for number, entries in pairs(parts) do redis.call('HSET', hub(field), number, entries) end
  redis.call('SADD', base .. ':hubs', hub(field))
  some_hub = true
  redis.call('HDEL', key, field)
end

-- Returns the hash and field where an entry of a list is or belongs, and their value.

local function place(key, field, entry)
  local list = redis.call('HGET', key, field)
  if list or not is_hub(field) then return key, field, list or '' end
  return hub(field), part(entry), redis.call('HGET', hub(field), part(entry)) or ''
end

local function add(key, field, entry)
  local at_key, at_field, list = place(key, field, entry)
  if position(list, entry) then return end
  redis.call('HSET', at_key, at_field, list .. entry)
  if at_key == key and #list >= LIMIT then move_to_hub(key, field, list .. entry, #entry) end
end

local function remove(key, field, entry)
  local at_key, at_field, list = place(key, field, entry)
  local at = position(list, entry)
  if not at then return end
  list = string.sub(list, 1, at - 1) .. string.sub(list, at + #entry)
  if list == '' then
    redis.call('HDEL', at_key, at_field)
  else
    redis.call('HSET', at_key, at_field, list)
  end
end

local function unlink_hubs()
  for _, key in ipairs(redis.call('SMEMBERS', base .. ':hubs')) do redis.call('UNLINK', key) end
  redis.call('UNLINK', base .. ':hubs')
end
