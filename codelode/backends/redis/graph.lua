-- The atomic steps of the dependency graph. A node is `f` + path or `x` + external name.
--
-- Keys, all below KEYS[1], which names the repository:
--   :meta      HASH next -> last id assigned, born -> time of the first assignment
--   :id        HASH node -> id          :name  HASH id -> node
--   :o:BUCKET  HASH id -> edges out     :i:BUCKET  HASH id -> edges in; BUCKET is id / 128
--   :hub:ID    HASH id / 512 -> a part of the edges in, for a long list; see packed.lua
-- Edges are packed: per edge the id of the far end (u32, little endian) and the kind (one byte).
-- A node keeps its id until the repository is removed, so a reader can resolve the ids it has read.

--- prelude
local ids, names, meta = base .. ':id', base .. ':name', base .. ':meta'
local function bucket(side, id) return base .. ':' .. side .. ':' .. math.floor(id / 128) end
local function outgoing(id) return redis.call('HGET', bucket('o', id), id) or '' end

--- read
-- ARGV: side, node…  →  born, then the packed edges of each node
local lists = { redis.call('HGET', meta, 'born') or '' }
for i = 2, #ARGV do
  local id = redis.call('HGET', ids, ARGV[i])
  if not id then
    lists[i] = ''
  elseif ARGV[1] == 'o' then
    lists[i] = outgoing(id)
  else
    lists[i] = read_list(bucket('i', id), id)
  end
end
return lists

--- replace
-- ARGV: source, then alternating targets and kinds of its edges
local function allocate(node)
  local id = redis.call('HGET', ids, node)
  if id then return tonumber(id) end
  id = redis.call('HINCRBY', meta, 'next', 1)
  if id == 1 then redis.call('HSET', meta, 'born', table.concat(redis.call('TIME'), '.')) end
  redis.call('HSET', ids, node, id)
  redis.call('HSET', names, id, node)
  return id
end

local known = redis.call('HGET', ids, ARGV[1])
if not known and #ARGV == 1 then return end
local source = known and tonumber(known) or allocate(ARGV[1])

local wanted, packed = {}, {}
for i = 2, #ARGV, 2 do
  local entry = struct.pack('<I4', allocate(ARGV[i])) .. ARGV[i + 1]
  wanted[entry] = true
  packed[#packed + 1] = entry
end
local old, had = outgoing(source), {}
for at = 1, #old, 5 do had[string.sub(old, at, at + 4)] = true end

-- The edge as stored with its target: the id of the source, and the kind.

local function back(entry) return struct.pack('<I4', source) .. string.sub(entry, 5) end
for entry in pairs(had) do
  local target = id_of(entry)
  if not wanted[entry] then remove(bucket('i', target), target, back(entry)) end
end
for _, entry in ipairs(packed) do
  local target = id_of(entry)
  if not had[entry] then add(bucket('i', target), target, back(entry)) end
end
local list = table.concat(packed)
if list == '' then
  redis.call('HDEL', bucket('o', source), source)
elseif list ~= old then
  redis.call('HSET', bucket('o', source), source, list)
end

--- clear
local last = tonumber(redis.call('HGET', meta, 'next') or 0)
for number = 0, math.floor(last / 128) do
  redis.call('UNLINK', base .. ':o:' .. number, base .. ':i:' .. number)
end
unlink_hubs()
redis.call('UNLINK', ids, names, meta)
