-- Atomic steps of the broker's channels.

--- take
-- KEYS[1]: prefix of the broker's keys
-- queue, key of the unacknowledged messages, key of their index, now, how many more to take, tag and
-- entry of the message at hand
-- -> the further messages that were taken; all are noted as unacknowledged, in kombu's layout
local queue, unacked, index = KEYS[1] .. ARGV[1], KEYS[1] .. ARGV[2], KEYS[1] .. ARGV[3]
local now, most = ARGV[4], tonumber(ARGV[5])
local function note(tag, entry)
  redis.call('ZADD', index, now, tag)
  redis.call('HSET', unacked, tag, entry)
end
note(ARGV[6], ARGV[7])
local more = most > 0 and redis.call('RPOP', queue, most) or {}
for _, message in ipairs(more) do
  local of = cjson.decode(message).properties
  local from = of.delivery_info
  note(of.delivery_tag, '[' .. message .. ',' .. cjson.encode(from.exchange) .. ','
    .. cjson.encode(from.routing_key) .. ']')
end
return more
