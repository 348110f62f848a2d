-- Derived values in generations: writes go to the newest generation, and when it is full the oldest
-- one is evicted as a whole. Eviction is a single command, and entries need no bookkeeping of their
-- own.
--
-- Keys, all below KEYS[1]: :newest the number of the newest generation · :N HASH of key -> value of
-- generation N; its field '' holds its size in bytes. A generation expires a time after its last write.

--- get
-- ARGV: generations, then keys -> values
local base, generations = KEYS[1], tonumber(ARGV[1])
local newest = tonumber(redis.call('GET', base .. ':newest') or '0')
local found, wanted, places = {}, {}, {}
for i = 2, #ARGV do
  found[i - 1] = false
  wanted[#wanted + 1], places[#places + 1] = ARGV[i], i - 1
end
for n = newest, math.max(0, newest - generations + 1), -1 do
  if #wanted == 0 then break end
  local values = redis.call('HMGET', base .. ':' .. n, unpack(wanted))
  local missing, missing_places = {}, {}
  for i, value in ipairs(values) do
    if value then
      found[places[i]] = value
    else
      missing[#missing + 1], missing_places[#missing_places + 1] = wanted[i], places[i]
    end
  end
  wanted, places = missing, missing_places
end
return found

--- put
-- ARGV: generations, bytes per generation, time to live in seconds, additional bytes per entry,
-- then key and value of each entry

local base, generations, limit = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local newest = tonumber(redis.call('GET', base .. ':newest') or '0')
local function hash() return base .. ':' .. newest end
local bytes = tonumber(redis.call('HGET', hash(), '') or '0')
local function settle()
  redis.call('HSET', hash(), '', bytes)
  redis.call('EXPIRE', hash(), ARGV[3])
end
for i = 5, #ARGV, 2 do
  if redis.call('HSET', hash(), ARGV[i], ARGV[i + 1]) == 1 then
    bytes = bytes + #ARGV[i] + #ARGV[i + 1] + ARGV[4]
  end
  if bytes >= limit then
    settle()
    newest, bytes = newest + 1, 0
    redis.call('UNLINK', base .. ':' .. (newest - generations))
  end
end
settle()
redis.call('SET', base .. ':newest', newest, 'EX', ARGV[3])
return 1
