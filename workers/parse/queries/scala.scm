(class_definition name: (_) @name) @definition.class
(object_definition name: (_) @name) @definition.class
(trait_definition name: (_) @name) @definition.trait
(enum_definition name: (_) @name) @definition.enum
(package_object name: (_) @name) @definition.module
(function_definition name: (_) @name) @definition.function
(function_declaration name: (_) @name) @definition.function
(given_definition name: (_) @name) @definition.constant
(type_definition name: (_) @name) @definition.type
(template_body (val_definition pattern: (identifier) @name) @definition.constant)
(compilation_unit (val_definition pattern: (identifier) @name) @definition.constant)

(import_declaration) @import

; uses of names
(call_expression function: (identifier) @reference.call)
(call_expression function: (field_expression field: (identifier) @reference.member))
(instance_expression (type_identifier) @reference.class)
(extends_clause (type_identifier) @reference.implementation)
(extends_clause (generic_type (type_identifier) @reference.implementation))
