(function_declaration name: (identifier) @name) @definition.function
(function_declaration name: (dot_index_expression) @name) @definition.function
(function_declaration name: (method_index_expression) @name) @definition.method
(variable_declaration (assignment_statement
  (variable_list . name: (identifier) @name)
  (expression_list . value: (function_definition)))) @definition.function
(assignment_statement
  (variable_list . name: (dot_index_expression) @name)
  (expression_list . value: (function_definition))) @definition.function
(field name: (identifier) @name value: (function_definition)) @definition.function
(chunk (variable_declaration
  (assignment_statement (variable_list . name: (identifier) @name))) @definition.constant)

(function_call
  name: (identifier) @_require arguments: (arguments . (string))
  (#eq? @_require "require")) @import

; uses of names
(function_call name: (identifier) @reference.call)
(function_call name: (dot_index_expression field: (identifier) @reference.member))
(function_call name: (method_index_expression method: (identifier) @reference.member))
