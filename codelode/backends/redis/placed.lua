-- Versions with an id each (u32, little endian), under which a table keeps its value.
--
--   :id  HASH path -> ids of its versions, packed
-- A table passes functions of an id, which handle a version:
--   record, write  read and write its record: the members, then the path
--   equals         whether its value is the given one
--   fill, drop     give it the given value, in place of what it has; remove it
local ids = base .. ':id'

local function versions_of(path, record)
  local versions, packed = {}, redis.call('HGET', ids, path) or ''
  for at = 1, #packed, 4 do
    local id = id_of(string.sub(packed, at, at + 3))
    local members = members_at(record(id), 1)
    versions[#versions + 1] = { id = id, members = members, was = members }
  end
  return versions, packed
end

-- Returns the id of the version of a path that a ref has, or nil.
local function version_at(path, number, record)
  for _, version in ipairs(versions_of(path, record)) do
    if position(version.members, number) then return version.id end
  end
end

local function vacated(versions)
  for _, version in ipairs(versions) do
    if version.members == '' then return version end
  end
end

-- Counts the moves of refs between versions, because a reader that needs two steps may find the ref in
-- neither of them.
local function note_moves(versions, target)
  for _, version in ipairs(versions) do
    if version ~= target and version.members ~= version.was then
      redis.call('HINCRBY', meta, 'moved', 1)
      return
    end
  end
end

-- Gives a path at the given refs the value that `handle` knows, or none.
local function place(path, given, is_wanted, handle)
  local versions, packed = versions_of(path, handle.record)
  local equals = is_wanted and function(version) return handle.equals(version.id) end
  local target = move(versions, given, equals)
  if is_wanted and not target then
    target = vacated(versions)
    if not target then
      target = { id = next_id(), members = '' }
      versions[#versions + 1] = target
    end
    target.members = given
    handle.fill(target.id)
    target.was = nil
  end
  if is_wanted then note_moves(versions, target) end
  local left = ''
  for _, version in ipairs(versions) do
    if version.members == '' then
      handle.drop(version.id)
    else
      if version.members ~= version.was then handle.write(version.id, head(version.members) .. path) end
      left = left .. struct.pack('<I4', version.id)
    end
  end
  if left == '' then
    redis.call('HDEL', ids, path)
  elseif left ~= packed then
    redis.call('HSET', ids, path, left)
  end
end
