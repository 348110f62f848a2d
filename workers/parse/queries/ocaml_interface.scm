(module_definition (module_binding (module_name) @name)) @definition.module
(module_type_definition (module_type_name) @name) @definition.interface
(type_definition (type_binding name: (type_constructor) @name)) @definition.type
(class_definition (class_binding (class_name) @name)) @definition.class
(exception_definition (constructor_declaration (constructor_name) @name)) @definition.type
(external (value_name) @name) @definition.function
(value_specification (value_name) @name) @definition.function

(open_module) @import
