-- The packages that repositories publish. Keys below KEYS[1]:
--   :of  HASH repository -> JSON {keys: {key: folder}, fingerprints: {…}}
--   :by  HASH key -> JSON {repository: folder}

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

--- publish
-- ARGV: repository, JSON as in `:of` (empty: remove), then alternating keys and folders

local old = redis.call('HGET', of, ARGV[1])
if old == ARGV[2] then return end
if old then
  for key in pairs(cjson.decode(old)['keys']) do put(key, ARGV[1], nil) end
end
for i = 3, #ARGV, 2 do put(ARGV[i], ARGV[1], ARGV[i + 1]) end
if ARGV[2] == '' then
  redis.call('HDEL', of, ARGV[1])
else
  redis.call('HSET', of, ARGV[1], ARGV[2])
end
