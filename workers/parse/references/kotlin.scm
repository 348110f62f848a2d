(call_expression . (simple_identifier) @reference.call)
(call_expression . (navigation_expression
  (navigation_suffix (simple_identifier) @reference.member)))
(delegation_specifier [
  (user_type (type_identifier) @reference.implementation)
  (constructor_invocation (user_type (type_identifier) @reference.implementation))
])
