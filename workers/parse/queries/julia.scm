(module_definition name: (identifier) @name) @definition.module
(struct_definition (type_head [
  (identifier) @name
  (parametrized_type_expression . (identifier) @name)
  (binary_expression . (identifier) @name)
  (binary_expression . (parametrized_type_expression . (identifier) @name))
])) @definition.struct
(abstract_definition (type_head [
  (identifier) @name
  (parametrized_type_expression . (identifier) @name)
  (binary_expression . (identifier) @name)
  (binary_expression . (parametrized_type_expression . (identifier) @name))
])) @definition.interface
(primitive_definition (type_head (identifier) @name)) @definition.type
(function_definition (signature [
  (identifier) @name
  (call_expression . [(identifier) (field_expression)] @name)
  (typed_expression . (call_expression . [(identifier) (field_expression)] @name))
  (where_expression . (call_expression . [(identifier) (field_expression)] @name))
  (where_expression
    . (typed_expression . (call_expression . [(identifier) (field_expression)] @name)))
])) @definition.function
(assignment
  . (call_expression . [(identifier) (field_expression)] @name)) @definition.function
(macro_definition (signature (call_expression . (identifier) @name))) @definition.macro
(const_statement (assignment . (identifier) @name)) @definition.constant

(using_statement) @import
(import_statement) @import
