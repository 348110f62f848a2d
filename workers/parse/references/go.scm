(call_expression function: (identifier) @reference.call)
(call_expression function: (selector_expression field: (field_identifier) @reference.member))
(composite_literal type: [
  (type_identifier) @reference.class
  (qualified_type name: (type_identifier) @reference.class)
])
(struct_type (field_declaration_list (field_declaration !name type: [
  (type_identifier) @reference.implementation
  (qualified_type name: (type_identifier) @reference.implementation)
])))
