(class_declaration "interface" (type_identifier) @name) @definition.interface
(class_declaration "enum" (type_identifier) @name) @definition.enum
(class_declaration (type_identifier) @name (enum_class_body)) @definition.enum
(class_declaration (type_identifier) @name) @definition.class
(object_declaration (type_identifier) @name) @definition.class
(companion_object (type_identifier) @name) @definition.class
(function_declaration
  receiver: (receiver_type (user_type . (type_identifier) @receiver))
  (simple_identifier) @name) @definition.method
(function_declaration (simple_identifier) @name) @definition.function
(type_alias . (type_identifier) @name) @definition.type
(source_file
  (property_declaration (variable_declaration (simple_identifier) @name)) @definition.constant)
(class_body
  (property_declaration (variable_declaration (simple_identifier) @name)) @definition.constant)

(import_header) @import

; uses of names
(call_expression . (simple_identifier) @reference.call)
(call_expression . (navigation_expression
  (navigation_suffix (simple_identifier) @reference.member)))
(delegation_specifier [
  (user_type (type_identifier) @reference.implementation)
  (constructor_invocation (user_type (type_identifier) @reference.implementation))
])
