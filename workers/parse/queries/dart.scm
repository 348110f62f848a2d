(class_definition name: (identifier) @name) @definition.class
(mixin_declaration . (_)? . (identifier) @name) @definition.trait
(extension_declaration name: (identifier) @name) @definition.class
(enum_declaration name: (identifier) @name) @definition.enum
(type_alias (type_identifier) @name) @definition.type
((method_signature [
  (function_signature name: (identifier) @name)
  (getter_signature name: (identifier) @name)
  (setter_signature name: (identifier) @name)
  (operator_signature (binary_operator) @name)
  (factory_constructor_signature (identifier) . (identifier) @name)
  (constructor_signature name: (identifier) . name: (identifier) @name)
  (constructor_signature . name: (identifier) @name . parameters: (_))
]) @definition.method . (function_body) @body)
(declaration [
  (function_signature name: (identifier) @name)
  (getter_signature name: (identifier) @name)
  (setter_signature name: (identifier) @name)
  (constructor_signature name: (identifier) . name: (identifier) @name)
  (constructor_signature . name: (identifier) @name . parameters: (_))
  (constant_constructor_signature (identifier) . (identifier) @name)
  (constant_constructor_signature . (_)? . (identifier) @name . (formal_parameter_list))
]) @definition.method
((function_signature name: (identifier) @name) @definition.function . (function_body) @body)
(program (getter_signature name: (identifier) @name) @definition.function . (function_body) @body)
(local_function_declaration
  (lambda_expression parameters: (function_signature name: (identifier) @name)))
  @definition.function
(program (static_final_declaration_list
  (static_final_declaration (identifier) @name) @definition.constant))
(declaration (static_final_declaration_list
  (static_final_declaration . (identifier) @name) @definition.constant))

(import_or_export) @import
(part_directive) @import
