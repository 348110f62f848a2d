-- The atomic steps of the reference index.
--
-- Keys, all below KEYS[1], which names the repository:
--   :meta    HASH next -> last id assigned, born -> time of the first assignment, shape,
--            moved -> number of refs that went from one version of a path to another
--   :ref     HASH ref -> number; see versions.lua
--   :id      HASH path -> ids of its versions; see placed.lua
--   :path    HASH id -> record of the version
--   :file    HASH id -> number of names (u16), their digests, then the names, compressed
--   :name    HASH digest of a name -> ids of the versions that use it, packed (u32, little endian)
--   :hub:DIGEST  HASH id / 512 -> a part of the ids, for a long list; see packed.lua
-- A digest is 5 bytes. Ids are never reused.

--- prelude
local WIDTH = 5
local paths, names, files = base .. ':path', base .. ':name', base .. ':file'
local function record(id) return redis.call('HGET', paths, id) end
local function digests(value)
  local found = {}
  if value == '' then return found end
  local count = struct.unpack('<I2', value)
  for i = 0, count - 1 do
    found[string.sub(value, 3 + i * WIDTH, 2 + (i + 1) * WIDTH)] = true
  end
  return found
end
local function clear()
  redis.call('UNLINK', ids, paths, names, files, meta, refs)
  unlink_hubs()
end

--- replace
-- ARGV: number of refs, refs…, path, the value of `:file` (empty: no names)
if is_outdated() then clear() end
local value = ARGV[#ARGV]
local given, at = given_refs(value ~= '')

local function exchange(id, wanted)
  local entry, had = struct.pack('<I4', id), digests(redis.call('HGET', files, id) or '')
  for digest in pairs(had) do
    if not wanted[digest] then remove(names, digest, entry) end
  end
  for digest in pairs(wanted) do
    if not had[digest] then add(names, digest, entry) end
  end
end

place(ARGV[at], given, value ~= '', {
  record = record,
  write = function(id, text) redis.call('HSET', paths, id, text) end,
  equals = function(id) return redis.call('HGET', files, id) == value end,
  fill = function(id)
    exchange(id, digests(value))
    redis.call('HSET', files, id, value)
  end,
  drop = function(id)
    exchange(id, {})
    redis.call('HDEL', files, id)
    redis.call('HDEL', paths, id)
  end,
})

--- holders
-- ARGV: ref, digest…  →  number of the ref (empty: unknown), born and moved, then the packed ids of
-- the versions with each digest, at any ref
local number = is_readable() and ref_number(ARGV[1]) or ''
local lists = { number, redis.call('HMGET', meta, 'born', 'moved') }
for i = 2, #ARGV do lists[i + 1] = number ~= '' and read_list(names, ARGV[i]) or '' end
return lists

--- holding
-- ARGV: ref, digest…  →  positions of the digests that a version has, at any ref, from 1; none if
-- the ref is unknown
local held = {}
if is_readable() and ref_number(ARGV[1]) then
  for i, list in ipairs(redis.call('HMGET', names, unpack(ARGV, 2))) do
    if list then held[#held + 1] = i end
  end
end
return held

--- held
-- ARGV: ref, path…  →  the value of `:file` of each (empty: no names)

local number, found = is_readable() and ref_number(ARGV[1]), {}
for i = 2, #ARGV do
  local id = number and version_at(ARGV[i], number, record)
  found[i - 1] = id and redis.call('HGET', files, id) or ''
end
return found

--- clear
clear()
