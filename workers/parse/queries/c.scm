((function_definition declarator: [
  (function_declarator declarator: (_) @name)
  (pointer_declarator declarator: (function_declarator declarator: (_) @name))
  (pointer_declarator
    declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)))
]) @definition.function (#not-match? @name "^(TYPED_)?TEST(_F|_P)?$"))
(translation_unit (function_definition
  type: (type_identifier)
  declarator: (parenthesized_declarator (identifier) @name)) @definition.function)
(preproc_ifdef (function_definition
  type: (type_identifier)
  declarator: (parenthesized_declarator (identifier) @name)) @definition.function)
(struct_specifier name: (type_identifier) @name body: (_)) @definition.struct
(union_specifier name: (type_identifier) @name body: (_)) @definition.struct
(enum_specifier name: (type_identifier) @name body: (_)) @definition.enum
(type_definition declarator: [
  (type_identifier) @name
  (pointer_declarator declarator: (type_identifier) @name)
  (function_declarator declarator: (parenthesized_declarator
    (pointer_declarator declarator: (type_identifier) @name)))
]) @definition.type
(preproc_function_def name: (identifier) @name) @definition.macro
(preproc_def name: (identifier) @name value: (_)) @definition.macro
(translation_unit (declaration declarator: (init_declarator declarator: [
  (identifier) @name
  (array_declarator declarator: (identifier) @name)
  (pointer_declarator declarator: (identifier) @name)
])) @definition.constant)

(preproc_include) @import

; uses of names
(call_expression function: (identifier) @reference.call)
(call_expression function: (field_expression field: (field_identifier) @reference.member))
