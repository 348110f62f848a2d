-- The atomic steps of the reference index.
--
-- Keys, all below KEYS[1], which names the repository:
--   :meta    HASH next -> last id assigned, born -> time of the first assignment
--   :id      HASH path -> file id            :path  HASH file id -> path
--   :file    HASH file id -> number of names (u16), their digests, then the names, compressed
--   :name    HASH digest of a name -> ids of the files that use it, packed (u32, little endian)
--   :hub:DIGEST  HASH id / 512 -> a part of the ids, for a long list; see packed.lua
-- A digest is 5 bytes. A file keeps its id until the repository is removed.

--- prelude
local WIDTH = 5
local ids, paths, names = base .. ':id', base .. ':path', base .. ':name'
local files, meta = base .. ':file', base .. ':meta'
local function born() return redis.call('HGET', meta, 'born') or '' end
local function digests(value)
  local found = {}
  if value == '' then return found end
  local count = struct.unpack('<I2', value)
  for i = 0, count - 1 do
    found[string.sub(value, 3 + i * WIDTH, 2 + (i + 1) * WIDTH)] = true
  end
  return found
end

--- replace
-- ARGV: path, the value of `:file` (empty: no names)
local id = redis.call('HGET', ids, ARGV[1])
if not id then
  if ARGV[2] == '' then return end
  id = redis.call('HINCRBY', meta, 'next', 1)
  if id == 1 then redis.call('HSET', meta, 'born', table.concat(redis.call('TIME'), '.')) end
  redis.call('HSET', ids, ARGV[1], id)
  redis.call('HSET', paths, id, ARGV[1])
end
local old = redis.call('HGET', files, id) or ''
if old == ARGV[2] then return end
local entry, had, wanted = struct.pack('<I4', tonumber(id)), digests(old), digests(ARGV[2])
for digest in pairs(had) do
  if not wanted[digest] then remove(names, digest, entry) end
end
for digest in pairs(wanted) do
  if not had[digest] then add(names, digest, entry) end
end
if ARGV[2] == '' then
  redis.call('HDEL', files, id)
else
  redis.call('HSET', files, id, ARGV[2])
end

--- holders
-- ARGV: digest…  →  born, then the packed file ids of each
local lists = { born() }
for i = 1, #ARGV do lists[i + 1] = read_list(names, ARGV[i]) end
return lists

--- held
-- ARGV: path…  →  the value of `:file` of each (empty: no names)

local found = {}
for i = 1, #ARGV do
  local id = redis.call('HGET', ids, ARGV[i])
  found[i] = id and redis.call('HGET', files, id) or ''
end
return found

--- clear
redis.call('UNLINK', ids, paths, names, files, meta)
unlink_hubs()
