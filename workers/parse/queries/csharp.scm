(class_declaration name: (identifier) @name) @definition.class
(record_declaration name: (identifier) @name) @definition.class
(struct_declaration name: (identifier) @name) @definition.struct
(interface_declaration name: (identifier) @name) @definition.interface
(enum_declaration name: (identifier) @name) @definition.enum
(delegate_declaration name: (identifier) @name) @definition.type
(method_declaration name: (identifier) @name) @definition.method
(constructor_declaration name: (identifier) @name) @definition.method
(property_declaration name: (identifier) @name) @definition.method
(local_function_statement name: (identifier) @name) @definition.function
(event_field_declaration
  (variable_declaration (variable_declarator name: (identifier) @name))) @definition.constant
(field_declaration
  (modifier "const")
  (variable_declaration (variable_declarator name: (identifier) @name))) @definition.constant
(field_declaration
  (modifier "static") (modifier "readonly")
  (variable_declaration (variable_declarator name: (identifier) @name))) @definition.constant

(using_directive) @import

; uses of names
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
