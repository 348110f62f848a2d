(module_declaration (module_header (simple_identifier) @name)) @definition.module
(package_declaration (package_identifier) @name) @definition.module
(interface_declaration (interface_ansi_header (interface_identifier) @name)) @definition.interface
(class_declaration (class_identifier) @name) @definition.class
(function_declaration (function_body_declaration (function_identifier) @name))
  @definition.function
(task_declaration (task_body_declaration (task_identifier) @name)) @definition.function

(include_compiler_directive) @import
(package_import_declaration) @import
