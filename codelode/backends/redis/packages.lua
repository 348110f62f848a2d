-- The packages that repositories publish. Keys below KEYS[1]:
--   :of  HASH repository (at the default ref), or repository + NUL + ref
--        -> JSON {keys: {key: folder}, fingerprints: {…}}
--   :by  HASH key -> JSON {repository: folder}, of the default refs

--- prelude
local of, by = KEYS[1] .. ':of', KEYS[1] .. ':by'
local function put(key, repository, folder)
  local json = redis.call('HGET', by, key)
  local publishers = json and cjson.decode(json) or {}
  publishers[repository] = folder
  if next(publishers) == nil then
    redis.call('HDEL', by, key)
  else
    redis.call('HSET', by, key, cjson.encode(publishers))
  end
end
local function is_default(field) return not string.find(field, '\0', 1, true) end
local function withdraw(field)
  local old = redis.call('HGET', of, field)
  if not old then return end
  if is_default(field) then
    for key in pairs(cjson.decode(old)['keys']) do put(key, field, nil) end
  end
  redis.call('HDEL', of, field)
end

--- publish
-- ARGV: field and value of `:of`, then alternating keys and folders
if redis.call('HGET', of, ARGV[1]) == ARGV[2] then return end
withdraw(ARGV[1])
if is_default(ARGV[1]) then
  for i = 3, #ARGV, 2 do put(ARGV[i], ARGV[1], ARGV[i + 1]) end
end
redis.call('HSET', of, ARGV[1], ARGV[2])

--- withdraw
-- ARGV: field of `:of`
withdraw(ARGV[1])

--- remove
-- ARGV: repository
local start = ARGV[1] .. '\0'
for _, field in ipairs(redis.call('HKEYS', of)) do
  if field == ARGV[1] or string.sub(field, 1, #start) == start then withdraw(field) end
end
