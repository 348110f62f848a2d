(call_expression function: (identifier) @reference.call)
(call_expression function: (member_expression property: (property_identifier) @reference.member))
(new_expression constructor: [
  (identifier) @reference.class
  (member_expression property: (property_identifier) @reference.class)
])
