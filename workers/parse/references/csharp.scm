(invocation_expression function: (identifier) @reference.call)
(invocation_expression function: (member_access_expression name: (identifier) @reference.member))
(invocation_expression function: (generic_name (identifier) @reference.call))
(invocation_expression
  function: (member_access_expression name: (generic_name (identifier) @reference.member)))
(object_creation_expression type: [
  (identifier) @reference.class
  (generic_name (identifier) @reference.class)
])
(base_list [
  (identifier) @reference.implementation
  (generic_name (identifier) @reference.implementation)
  (qualified_name name: (identifier) @reference.implementation)
])
