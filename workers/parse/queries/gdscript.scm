(class_name_statement name: (name) @name) @definition.class @open
(class_definition name: (name) @name) @definition.class
(enum_definition name: (name) @name) @definition.enum
(function_definition name: (name) @name) @definition.function
(signal_statement name: (name) @name) @definition.type
(source (const_statement name: (name) @name) @definition.constant)
