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
