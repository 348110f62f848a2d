(class_declaration name: (_) @name) @definition.class
(class name: (_) @name) @definition.class
(function_declaration name: (identifier) @name) @definition.function
(generator_function_declaration name: (identifier) @name) @definition.function
(method_definition name: (_) @name) @definition.method

(variable_declarator
  name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @definition.function
(variable_declarator name: (identifier) @name value: (class)) @definition.class
(assignment_expression
  left: (member_expression property: (property_identifier) @name)
  right: [(arrow_function) (function_expression) (generator_function)]) @definition.function
(assignment_expression
  left: (identifier) @name
  right: [(arrow_function) (function_expression) (generator_function)]) @definition.function
(pair
  key: [(property_identifier) (private_property_identifier)] @name
  value: [(arrow_function) (function_expression) (generator_function)]) @definition.function

(program (lexical_declaration (variable_declarator name: (identifier) @name) @definition.constant))
(program (variable_declaration (variable_declarator name: (identifier) @name) @definition.constant))
(export_statement
  (lexical_declaration (variable_declarator name: (identifier) @name) @definition.constant))

(export_specifier name: (identifier) @exported)
(export_statement value: (identifier) @exported)
(assignment_expression
  left: (member_expression
    object: (identifier) @_module property: (property_identifier) @_exports)
  right: [(identifier) @exported (object (shorthand_property_identifier) @exported)]
  (#eq? @_module "module") (#eq? @_exports "exports"))

(import_statement) @import
(export_statement source: (string)) @import
(call_expression
  function: (identifier) @_require arguments: (arguments . (string))
  (#eq? @_require "require")) @import
(call_expression function: (import) arguments: (arguments . (string))) @import

; uses of names
(call_expression function: (identifier) @reference.call)
(call_expression function: (member_expression property: (property_identifier) @reference.member))
(new_expression constructor: [
  (identifier) @reference.class
  (member_expression property: (property_identifier) @reference.class)
])
