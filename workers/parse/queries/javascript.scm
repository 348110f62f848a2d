; inherits: ecmascript
(field_definition
  property: (_) @name value: [(arrow_function) (function_expression)]) @definition.method

; uses of names
(class_heritage [
  (identifier) @reference.implementation
  (member_expression property: (property_identifier) @reference.implementation)
])
(jsx_opening_element name: (identifier) @reference.call)
(jsx_self_closing_element name: (identifier) @reference.call)
