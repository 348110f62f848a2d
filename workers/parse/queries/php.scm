(class_declaration name: (name) @name) @definition.class
(interface_declaration name: (name) @name) @definition.interface
(trait_declaration name: (name) @name) @definition.trait
(enum_declaration name: (name) @name) @definition.enum
(function_definition name: (name) @name) @definition.function
(method_declaration name: (name) @name) @definition.method
(const_declaration (const_element (name) @name)) @definition.constant

(namespace_use_declaration) @import
(require_expression) @import
(require_once_expression) @import
(include_expression) @import
(include_once_expression) @import

; uses of names
(function_call_expression function: (name) @reference.call)
(function_call_expression function: (qualified_name (name) @reference.call))
(member_call_expression name: (name) @reference.member)
(nullsafe_member_call_expression name: (name) @reference.member)
(scoped_call_expression name: (name) @reference.member)
(scoped_call_expression scope: (name) @reference.class)
(object_creation_expression (name) @reference.class)
(base_clause (name) @reference.implementation)
(class_interface_clause (name) @reference.implementation)
(use_declaration (name) @reference.implementation)
