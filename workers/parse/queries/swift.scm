(class_declaration "class" name: (_) @name) @definition.class
(class_declaration "actor" name: (_) @name) @definition.class
(class_declaration "struct" name: (_) @name) @definition.struct
(class_declaration "enum" name: (_) @name) @definition.enum
(class_declaration "extension" name: (_) @name) @scope
(protocol_declaration name: (_) @name) @definition.interface
(function_declaration name: (simple_identifier) @name) @definition.function
(protocol_function_declaration name: (simple_identifier) @name) @definition.method
(init_declaration "init" @name) @definition.method
(subscript_declaration "subscript" @name) @definition.method
(typealias_declaration . (modifiers)? "typealias" . name: (type_identifier) @name) @definition.type
(associatedtype_declaration name: (type_identifier) @name) @definition.type
(macro_declaration (simple_identifier) @name) @definition.macro
(class_body (property_declaration
  name: (pattern bound_identifier: (simple_identifier) @name)) @definition.constant)
(source_file (property_declaration
  name: (pattern bound_identifier: (simple_identifier) @name)) @definition.constant)

(import_declaration) @import

; uses of names
(call_expression . (simple_identifier) @reference.call)
(call_expression . (navigation_expression
  suffix: (navigation_suffix suffix: (simple_identifier) @reference.member)))
(inheritance_specifier inherits_from: (user_type (type_identifier) @reference.implementation))
