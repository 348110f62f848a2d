(function_declaration name: (identifier) @name) @definition.function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @receiver
    (pointer_type (type_identifier) @receiver)
    (generic_type type: (type_identifier) @receiver)
    (pointer_type (generic_type type: (type_identifier) @receiver))
  ]))
  name: (field_identifier) @name) @definition.method
(type_spec name: (type_identifier) @name type: (struct_type)) @definition.struct
(type_spec name: (type_identifier) @name type: (interface_type)) @definition.interface
(type_spec name: (type_identifier) @name) @definition.type
(type_alias name: (type_identifier) @name) @definition.type
(method_elem name: (field_identifier) @name) @definition.method
(source_file (const_declaration (const_spec name: (identifier) @name) @definition.constant))
(source_file (var_declaration (var_spec name: (identifier) @name) @definition.constant))
(source_file
  (var_declaration (var_spec_list (var_spec name: (identifier) @name) @definition.constant)))

(import_spec) @import

; uses of names
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
