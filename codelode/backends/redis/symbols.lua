-- The atomic steps of the symbol table.
--
-- Keys, all below KEYS[1], which names the repository:
--   :meta      HASH next -> last id assigned      :id  HASH path -> file id
--   :name      HASH name -> ids of the files that define it, packed (u32, little endian)
--   :hub:NAME  HASH id / 512 -> a part of the ids, for a long list; see packed.lua
--   :file:ID   HASH `/` -> path, `=` + name -> definitions of that name in the file, JSON
-- A file without definitions has no id; ids are never reused.

--- prelude
local ids, names, meta = base .. ':id', base .. ':name', base .. ':meta'
local function file(id) return base .. ':file:' .. id end

--- lookup
-- ARGV: name  →  alternating path and definitions, for each file that defines the name
local found, field = {}, '=' .. ARGV[1]
local files = read_list(names, ARGV[1])
for at = 1, #files, 4 do
  local values = redis.call('HMGET', file(id_of(string.sub(files, at, at + 3))), '/', field)
  if values[2] then
    found[#found + 1] = values[1]
    found[#found + 1] = values[2]
  end
end
return found

--- defined
-- ARGV: path…  →  alternating names and definitions of each file
local found = {}
for i = 1, #ARGV do
  local id = redis.call('HGET', ids, ARGV[i])
  found[i] = id and redis.call('HGETALL', file(id)) or {}
end
return found

--- replace
-- ARGV: path, then alternating names and their definitions in the file
local id = redis.call('HGET', ids, ARGV[1])
if not id then
  if #ARGV == 1 then return end
  id = redis.call('HINCRBY', meta, 'next', 1)
  redis.call('HSET', ids, ARGV[1], id)
end
local entry, wanted = struct.pack('<I4', tonumber(id)), {}
for i = 2, #ARGV, 2 do wanted['=' .. ARGV[i]] = true end
for _, field in ipairs(redis.call('HKEYS', file(id))) do
  if field ~= '/' and not wanted[field] then remove(names, string.sub(field, 2), entry) end
end
redis.call('UNLINK', file(id))
if #ARGV == 1 then
  redis.call('HDEL', ids, ARGV[1])
  return
end
redis.call('HSET', file(id), '/', ARGV[1])
for i = 2, #ARGV, 2 do
  redis.call('HSET', file(id), '=' .. ARGV[i], ARGV[i + 1])
  add(names, ARGV[i], entry)
end

--- clear
-- Removes all names, so that lookups find nothing, and then some files  →  number of files left

redis.call('UNLINK', names)
unlink_hubs()
local some = redis.call('HSCAN', ids, 0, 'COUNT', 1000)[2]
for i = 1, #some, 2 do
  redis.call('UNLINK', file(some[i + 1]))
  redis.call('HDEL', ids, some[i])
end
local left = redis.call('HLEN', ids)
if left == 0 then redis.call('UNLINK', meta) end
return left
