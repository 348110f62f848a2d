(function_item name: (identifier) @name) @definition.function
(function_signature_item name: (identifier) @name) @definition.function
(struct_item name: (type_identifier) @name) @definition.struct
(union_item name: (type_identifier) @name) @definition.struct
(enum_item name: (type_identifier) @name) @definition.enum
(trait_item name: (type_identifier) @name) @definition.trait
(type_item name: (type_identifier) @name) @definition.type
(associated_type name: (type_identifier) @name) @definition.type
(const_item name: (identifier) @name) @definition.constant
(static_item name: (identifier) @name) @definition.constant
(macro_definition name: (identifier) @name) @definition.macro
(mod_item name: (identifier) @name body: (_)) @definition.module
(impl_item type: [
  (type_identifier) @name
  (generic_type type: [(type_identifier) (scoped_type_identifier)] @name)
  (scoped_type_identifier) @name
  (reference_type) @name
]) @scope

(use_declaration) @import
(extern_crate_declaration) @import
(mod_item name: (identifier) !body) @import

(source_file (macro_invocation (token_tree) @block))
(declaration_list (macro_invocation (token_tree) @block))

; uses of names
(call_expression function: (identifier) @reference.call)
(call_expression function: (scoped_identifier name: (identifier) @reference.call))
(call_expression function: (field_expression field: (field_identifier) @reference.member))
(call_expression function: (generic_function function: (identifier) @reference.call))
(macro_invocation macro: (identifier) @reference.call)
(token_tree (identifier) @reference.token . (token_tree . "("))
(struct_expression name: (type_identifier) @reference.class)
(impl_item trait: [
  (type_identifier) @reference.implementation
  (generic_type type: (type_identifier) @reference.implementation)
  (scoped_type_identifier name: (type_identifier) @reference.implementation)
])
