(struct_definition type: (identifier) @name) @definition.struct
(union_definition type: (identifier) @name) @definition.struct
(exception_definition . (identifier) @name) @definition.struct
(enum_definition type: (identifier) @name) @definition.enum
(service_definition type: (identifier) @name) @definition.interface
(function_definition (identifier) @name) @definition.method
(typedef_definition (typedef_identifier) @name) @definition.type
(const_definition (identifier) @name) @definition.constant

(include_statement) @import
