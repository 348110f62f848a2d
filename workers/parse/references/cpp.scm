; inherits: c
(call_expression function: (qualified_identifier name: (identifier) @reference.call))
(call_expression function: (template_function name: (identifier) @reference.call))
(new_expression type: (type_identifier) @reference.class)
(base_class_clause [
  (type_identifier) @reference.implementation
  (template_type name: (type_identifier) @reference.implementation)
  (qualified_identifier name: (type_identifier) @reference.implementation)
])
