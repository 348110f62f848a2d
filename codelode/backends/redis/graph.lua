-- The atomic steps of the dependency graph. A node is `f` + path or `x` + external name.
--
-- Keys, all below KEYS[1], which names the repository:
--   :meta      HASH next -> last id assigned, born -> time of the first assignment, shape
--   :ref       HASH ref -> number; see versions.lua
--   :id        HASH node -> id          :name  HASH id -> node
--   :o:BUCKET  HASH id -> versions of the edges out; BUCKET is id / 128
--   :i:BUCKET  HASH id -> edges in, at any ref
--   :hub:ID    HASH id / 512 -> a part of the edges in, for a long list; see packed.lua
-- Edges are packed: per edge the id of the far end (u32, little endian) and the kind (one byte).
-- Versions are packed: per version its members, the length of its edges (u32), and the edges.
-- A node keeps its id until the repository is removed, so a reader can resolve the ids it has read.

--- prelude
local ids, names = base .. ':id', base .. ':name'
local function bucket(side, id) return base .. ':' .. side .. ':' .. math.floor(id / 128) end
local function outgoing(id) return redis.call('HGET', bucket('o', id), id) or '' end

local function clear()
  local last = tonumber(redis.call('HGET', meta, 'next') or 0)
  for number = 0, math.floor(last / 128) do
    redis.call('UNLINK', base .. ':o:' .. number, base .. ':i:' .. number)
  end
  unlink_hubs()
  redis.call('UNLINK', ids, names, meta, refs)
end

--- read
-- ARGV: side, ref, node…  →  born, number of the ref (empty: unknown), then of each node its
-- versions out, or its id (u32) and its packed edges in
local number = is_readable() and ref_number(ARGV[2]) or ''
local lists = { redis.call('HGET', meta, 'born') or '', number }
for i = 3, #ARGV do
  local id = number ~= '' and redis.call('HGET', ids, ARGV[i])
  if not id then
    lists[i] = ''
  elseif ARGV[1] == 'o' then
    lists[i] = outgoing(id)
  else
    lists[i] = struct.pack('<I4', id) .. read_list(bucket('i', id), id)
  end
end
return lists

--- replace
-- ARGV: number of refs, refs…, source, then alternating targets and kinds of its edges
local function allocate(node)
  local id = redis.call('HGET', ids, node)
  if id then return tonumber(id) end
  id = next_id()
  redis.call('HSET', ids, node, id)
  redis.call('HSET', names, id, node)
  return id
end

local function unpacked(value)
  local versions, at = {}, 1
  while at <= #value do
    local members, stop = members_at(value, at)
    local length = struct.unpack('<I4', value, stop)
    at = stop + 4 + length
    versions[#versions + 1] = { members = members, edges = string.sub(value, stop + 4, at - 1) }
  end
  return versions
end

local function distinct(versions)
  local found = {}
  for _, version in ipairs(versions) do
    for at = 1, #version.edges, 5 do found[string.sub(version.edges, at, at + 4)] = true end
  end
  return found
end

if is_outdated() then clear() end
local first_edge = tonumber(ARGV[1]) + 3
local is_wanted = #ARGV >= first_edge
local given, at = given_refs(is_wanted)
local known = redis.call('HGET', ids, ARGV[at])
if not known and not is_wanted then return end
local source = known and tonumber(known) or allocate(ARGV[at])

local packed = {}
for i = first_edge, #ARGV, 2 do
  packed[#packed + 1] = struct.pack('<I4', allocate(ARGV[i])) .. ARGV[i + 1]
end
local edges, old = table.concat(packed), outgoing(source)
local versions = unpacked(old)
local had = distinct(versions)
local target = move(versions, given, is_wanted and function(one) return one.edges == edges end)
if is_wanted and not target then versions[#versions + 1] = { members = given, edges = edges } end

local left, value = {}, ''
for _, version in ipairs(versions) do
  if version.members ~= '' then
    left[#left + 1] = version
    local length = struct.pack('<I4', #version.edges)
    value = value .. head(version.members) .. length .. version.edges
  end
end

-- The edge as stored with its target: the id of the source, and the kind.

local function back(entry) return struct.pack('<I4', source) .. string.sub(entry, 5) end
local wanted = distinct(left)
for entry in pairs(had) do
  local target_id = id_of(entry)
  if not wanted[entry] then remove(bucket('i', target_id), target_id, back(entry)) end
end
for entry in pairs(wanted) do
  local target_id = id_of(entry)
  if not had[entry] then add(bucket('i', target_id), target_id, back(entry)) end
end
if value == '' then
  redis.call('HDEL', bucket('o', source), source)
elseif value ~= old then
  redis.call('HSET', bucket('o', source), source, value)
end

--- clear
clear()
