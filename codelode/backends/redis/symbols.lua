-- The atomic steps of the symbol table.
--
-- Keys, all below KEYS[1], which names the repository:
--   :meta      HASH next -> last id assigned, shape     :ref  HASH ref -> number; see versions.lua
--   :id        HASH path -> ids of its versions; see placed.lua
--   :name      HASH name -> ids of the versions that define it, packed (u32, little endian)
--   :hub:NAME  HASH id / 512 -> a part of the ids, for a long list; see packed.lua
--   :file:ID   HASH `/` -> record of the version, `=` + name -> its definitions of that name, JSON
-- A file without definitions at any ref has no id; ids are never reused.

--- prelude
local names = base .. ':name'
local function file(id) return base .. ':file:' .. id end
local function record(id) return redis.call('HGET', file(id), '/') end

-- Removes all names, so that lookups find nothing, and then some files; returns how many are left.
local function clear()
  redis.call('UNLINK', names)
  unlink_hubs()
  local some = redis.call('HSCAN', ids, 0, 'COUNT', 1000)[2]
  for i = 1, #some, 2 do
    local versions = some[i + 1]
    if not is_readable() then redis.call('UNLINK', file(versions)) end  -- formerly one id, in digits
    for at = 1, #versions - 3, 4 do
      redis.call('UNLINK', file(id_of(string.sub(versions, at, at + 3))))
    end
    redis.call('HDEL', ids, some[i])
  end
  local left = redis.call('HLEN', ids)
  if left == 0 then redis.call('UNLINK', meta, refs) end
  return left
end

--- lookup
-- ARGV: ref, name  →  alternating path and definitions, for each file that defines the name
local number = is_readable() and ref_number(ARGV[1])
if not number then return {} end
local found, field = {}, '=' .. ARGV[2]
local files = read_list(names, ARGV[2])
for at = 1, #files, 4 do
  local values = redis.call('HMGET', file(id_of(string.sub(files, at, at + 3))), '/', field)
  if values[2] then
    local members, stop = members_at(values[1], 1)
    if position(members, number) then
      found[#found + 1] = string.sub(values[1], stop)
      found[#found + 1] = values[2]
    end
  end
end
return found

--- defined
-- ARGV: ref, path…  →  alternating names and definitions of each file
local number, found = is_readable() and ref_number(ARGV[1]), {}
for i = 2, #ARGV do
  local id = number and version_at(ARGV[i], number, record)
  found[i - 1] = id and redis.call('HGETALL', file(id)) or {}
end
return found

--- replace
-- ARGV: number of refs, refs…, path, then alternating names and their definitions in the file
while is_outdated() and clear() > 0 do end
local first = tonumber(ARGV[1]) + 3
local is_wanted, wanted = #ARGV >= first, {}
for i = first, #ARGV, 2 do wanted['=' .. ARGV[i]] = ARGV[i + 1] end
local given, at = given_refs(is_wanted)

local function names_of(id)
  local fields = {}
  for _, field in ipairs(redis.call('HKEYS', file(id))) do
    if field ~= '/' then fields[#fields + 1] = field end
  end
  return fields
end

local function forget(id, kept)
  local entry = struct.pack('<I4', id)
  for _, field in ipairs(names_of(id)) do
    if not kept[field] then remove(names, string.sub(field, 2), entry) end
  end
  redis.call('UNLINK', file(id))
end

place(ARGV[at], given, is_wanted, {
  record = record,
  write = function(id, value) redis.call('HSET', file(id), '/', value) end,
  equals = function(id)
    local fields = names_of(id)
    if #fields ~= (#ARGV - first + 1) / 2 then return false end
    for _, field in ipairs(fields) do
      if redis.call('HGET', file(id), field) ~= wanted[field] then return false end
    end
    return true
  end,
  fill = function(id)
    forget(id, wanted)
    for field, definitions in pairs(wanted) do
      redis.call('HSET', file(id), field, definitions)
      add(names, string.sub(field, 2), struct.pack('<I4', id))
    end
  end,
  drop = function(id) forget(id, {}) end,
})

--- clear
return clear()
