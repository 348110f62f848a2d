; inherits: ecmascript
(abstract_class_declaration name: (_) @name) @definition.class
(interface_declaration name: (_) @name) @definition.interface
(type_alias_declaration name: (_) @name) @definition.type
(enum_declaration name: (_) @name) @definition.enum
(function_signature name: (identifier) @name) @definition.function
(method_signature name: (_) @name) @definition.method
(abstract_method_signature name: (_) @name) @definition.method
(module name: (_) @name) @definition.module
(internal_module name: (_) @name) @definition.module
(public_field_definition
  name: (_) @name value: [(arrow_function) (function_expression)]) @definition.method

; uses of names
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
