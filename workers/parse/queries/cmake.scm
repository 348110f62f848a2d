(function_def
  (function_command (argument_list . (argument) @name))) @definition.function
(macro_def (macro_command (argument_list . (argument) @name))) @definition.macro
(normal_command
  (identifier) @_command (argument_list . (argument) @name)
  (#match? @_command "(?i)^(project|add_library|add_executable|add_custom_target)$"))
  @definition.module
(source_file (normal_command
  (identifier) @_command (argument_list . (argument) @name)
  (#match? @_command "(?i)^(set|option)$")) @definition.constant)

(normal_command
  (identifier) @_command
  (#match? @_command "(?i)^(include|add_subdirectory|find_package)$")) @import
