; inherits: ecmascript
(extends_clause value: [
  (identifier) @reference.implementation
  (member_expression property: (property_identifier) @reference.implementation)
])
(implements_clause [
  (type_identifier) @reference.implementation
  (generic_type name: (type_identifier) @reference.implementation)
])
(extends_type_clause [
  (type_identifier) @reference.implementation
  (generic_type name: (type_identifier) @reference.implementation)
])
