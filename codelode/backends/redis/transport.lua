-- What the broker's channels ask of Redis in one step.

--- take
-- KEYS[1]: the prefix of the broker's keys. Names of the queue, of the unacknowledged messages and
-- of their index, now, how many more, then tag and entry of the message at hand
-- -> messages that were taken besides; all are noted as unacknowledged, as kombu does it
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
