(module_definition (module_binding (module_name) @name)) @definition.module
(module_type_definition (module_type_name) @name) @definition.interface
(type_definition (type_binding name: (type_constructor) @name)) @definition.type
(class_definition (class_binding (class_name) @name)) @definition.class
(method_definition (method_name) @name) @definition.method
(exception_definition (constructor_declaration (constructor_name) @name)) @definition.type
(external (value_name) @name) @definition.function
(value_specification (value_name) @name) @definition.function
(compilation_unit (value_definition
  (let_binding pattern: (value_name) @name (parameter)) @definition.function))
(structure (value_definition
  (let_binding pattern: (value_name) @name (parameter)) @definition.function))
(compilation_unit (value_definition
  (let_binding pattern: (value_name) @name body: (fun_expression)) @definition.function))
(compilation_unit (value_definition
  (let_binding pattern: (value_name) @name body: (function_expression)) @definition.function))
(compilation_unit (value_definition
  (let_binding pattern: (value_name) @name) @definition.constant))
(structure (value_definition
  (let_binding pattern: (value_name) @name) @definition.constant))

(open_module) @import
