; inherits: c
(class_specifier name: (_) @name body: (_)) @definition.class
(struct_specifier name: (template_type) @name body: (_)) @definition.struct
(function_definition
  declarator: (reference_declarator (function_declarator declarator: (_) @name)))
  @definition.function
((function_definition declarator: (function_declarator
  declarator: (identifier) @_macro
  parameters: (parameter_list
    (parameter_declaration) . (parameter_declaration type: (type_identifier) @name) .)))
  @definition.function (#any-of? @_macro "TEST" "TEST_F" "TEST_P" "TYPED_TEST" "TYPED_TEST_P"))
(function_definition declarator: (operator_cast) @name) @definition.function
(field_declaration declarator: [
  (function_declarator declarator: (_) @name)
  (pointer_declarator declarator: (function_declarator declarator: (_) @name))
  (reference_declarator (function_declarator declarator: (_) @name))
]) @definition.method
(field_declaration_list
  (declaration declarator: (function_declarator declarator: (_) @name)) @definition.method)
(alias_declaration name: (type_identifier) @name) @definition.type
(concept_definition name: (identifier) @name) @definition.type
(namespace_definition name: (_) @name) @namespace
(declaration_list (declaration
  declarator: (init_declarator declarator: (identifier) @name)) @definition.constant)

; uses of names
(call_expression function: (qualified_identifier name: (identifier) @reference.call))
(call_expression function: (template_function name: (identifier) @reference.call))
(new_expression type: (type_identifier) @reference.class)
(base_class_clause [
  (type_identifier) @reference.implementation
  (template_type name: (type_identifier) @reference.implementation)
  (qualified_identifier name: (type_identifier) @reference.implementation)
])
