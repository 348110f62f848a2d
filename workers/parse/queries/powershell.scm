(function_statement (function_name) @name) @definition.function
(class_statement . (simple_name) @name) @definition.class
(enum_statement . (simple_name) @name) @definition.enum
(class_method_definition (simple_name) @name) @definition.method

(command
  command_name: (command_name) @_import
  (#match? @_import "(?i)^(import-module|using)$")) @import
(command (command_invokation_operator) @_dot (#eq? @_dot ".")) @import
