-- Atomic steps of the broker's channels.

--- take
-- KEYS[1]: prefix of the broker's keys
-- key of the unacknowledged messages, key of their index, now, how many more to take, tag and entry of
-- the message at hand, then the lists of the queue, highest priority first
-- -> the further messages that were taken; all are noted as unacknowledged, in kombu's layout. Anything
-- that is not a message is dropped
local unacked, index = KEYS[1] .. ARGV[1], KEYS[1] .. ARGV[2]
local now, most = ARGV[3], tonumber(ARGV[4])
local function note(tag, entry)
  redis.call('ZADD', index, now, tag)
  redis.call('HSET', unacked, tag, entry)
end
note(ARGV[5], ARGV[6])
local more = {}
for i = 7, #ARGV do
  local room = most - #more
  for _, message in ipairs(room > 0 and redis.call('RPOP', KEYS[1] .. ARGV[i], room) or {}) do
    local is_json, found = pcall(cjson.decode, message)
    local of = is_json and type(found) == 'table' and type(found.properties) == 'table'
      and found.properties or {}
    local from = type(of.delivery_info) == 'table' and of.delivery_info or {}
    if type(of.delivery_tag) == 'string' and type(found.body) == 'string' and from.exchange
        and from.routing_key then
      note(of.delivery_tag, '[' .. message .. ',' .. cjson.encode(from.exchange) .. ','
        .. cjson.encode(from.routing_key) .. ']')
      more[#more + 1] = message
    end
  end
end
return more
