(contract_declaration name: (identifier) @name) @definition.class
(library_declaration name: (identifier) @name) @definition.class
(interface_declaration name: (identifier) @name) @definition.interface
(struct_declaration name: (identifier) @name) @definition.struct
(enum_declaration name: (identifier) @name) @definition.enum
(function_definition name: (identifier) @name) @definition.function
(constructor_definition "constructor" @name) @definition.method
(fallback_receive_definition ["fallback" "receive"] @name) @definition.method
(modifier_definition name: (identifier) @name) @definition.macro
(event_definition name: (identifier) @name) @definition.type
(error_declaration name: (identifier) @name) @definition.type
(user_defined_type_definition name: (identifier) @name) @definition.type
(state_variable_declaration name: (identifier) @name) @definition.constant
(constant_variable_declaration name: (identifier) @name) @definition.constant

(import_directive) @import
