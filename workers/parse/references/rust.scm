(call_expression function: (identifier) @reference.call)
(call_expression function: (scoped_identifier name: (identifier) @reference.call))
(call_expression function: (field_expression field: (field_identifier) @reference.member))
(call_expression function: (generic_function function: (identifier) @reference.call))
(macro_invocation macro: (identifier) @reference.call)
(struct_expression name: (type_identifier) @reference.class)
(impl_item trait: [
  (type_identifier) @reference.implementation
  (generic_type type: (type_identifier) @reference.implementation)
  (scoped_type_identifier name: (type_identifier) @reference.implementation)
])
