(class_declaration (identifier) @name) @definition.class
(struct_declaration (identifier) @name) @definition.struct
(union_declaration (identifier) @name) @definition.struct
(interface_declaration (identifier) @name) @definition.interface
(enum_declaration (identifier) @name) @definition.enum
(template_declaration (identifier) @name) @definition.macro
(function_declaration (identifier) @name) @definition.function
(constructor (this) @name) @definition.method
(alias_declaration (alias_initializer . (identifier) @name)) @definition.type

(import_declaration) @import
