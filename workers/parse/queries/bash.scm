(function_definition name: (_) @name) @definition.function
(program (variable_assignment name: (variable_name) @name) @definition.constant)
(program
  (declaration_command (variable_assignment name: (variable_name) @name) @definition.constant))
(command
  name: (command_name (word) @_source) . argument: (_)
  (#any-of? @_source "source" ".")) @import

; uses of names
(command name: (command_name (word) @reference.call))
