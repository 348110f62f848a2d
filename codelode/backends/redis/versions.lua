-- Values per path that are shared by refs. Refs have numbers (u16, little endian) in the hash `:ref`.
--
-- A version is a value of a path with the refs that have it, its members; equal values of a path are
-- one version. A record starts with the members: their count (u16), then their numbers.
local refs, meta, SHAPE = base .. ':ref', base .. ':meta', '2'

-- A table that an older version of codelode wrote reads as empty; the first write clears it.
local function is_readable() return redis.call('HGET', meta, 'shape') == SHAPE end
local function is_outdated() return redis.call('EXISTS', meta) == 1 and not is_readable() end

local function next_id()
  local id = redis.call('HINCRBY', meta, 'next', 1)
  if id == 1 then
    redis.call('HSET', meta, 'born', table.concat(redis.call('TIME'), '.'), 'shape', SHAPE)
  end
  return id
end

local function ref_number(ref)
  local number = redis.call('HGET', refs, ref)
  return number and struct.pack('<I2', tonumber(number))
end

-- Takes the lowest number that no ref has.
local function number_ref(ref)
  local taken, number = {}, 0
  for _, other in ipairs(redis.call('HVALS', refs)) do taken[tonumber(other)] = true end
  while taken[number] do number = number + 1 end
  if number > 65535 then error('a repository has too many refs; remove some') end
  redis.call('HSET', refs, ref, number)
  return struct.pack('<I2', number)
end

-- Returns the refs that ARGV begins with, after their count, and the position after them.
local function given_refs(is_wanted)
  local count, members = tonumber(ARGV[1]), ''
  for i = 2, count + 1 do
    members = members .. (ref_number(ARGV[i]) or is_wanted and number_ref(ARGV[i]) or '')
  end
  return members, count + 2
end

local function each(members)
  local at = -1
  return function()
    at = at + 2
    if at < #members then return string.sub(members, at, at + 1) end
  end
end

local function without(members, taken)
  local left = ''
  for number in each(members) do
    if not position(taken, number) then left = left .. number end
  end
  return left
end

local function head(members) return struct.pack('<I2', #members / 2) .. members end

-- Returns the members of a record that starts at a position, and the position after them.
local function members_at(record, at)
  local stop = at + 2 + 2 * struct.unpack('<I2', record, at)
  return string.sub(record, at + 2, stop - 1), stop
end

-- Moves the given refs to the version that `equals` accepts, and returns it; otherwise takes them
-- from all versions.
local function move(versions, given, equals)
  local target
  for _, version in ipairs(versions) do
    if not target and equals and equals(version) then
      target = version
      version.members = version.members .. without(given, version.members)
    else
      version.members = without(version.members, given)
    end
  end
  return target
end
