(object_type_definition (name) @name) @definition.class
(object_type_extension (name) @name) @scope
(interface_type_definition (name) @name) @definition.interface
(enum_type_definition (name) @name) @definition.enum
(input_object_type_definition (name) @name) @definition.struct
(union_type_definition (name) @name) @definition.type
(scalar_type_definition (name) @name) @definition.type
(directive_definition (name) @name) @definition.macro
(operation_definition (name) @name) @definition.function
(fragment_definition (fragment_name) @name) @definition.function
([
  (object_type_definition
    (name) @_root (fields_definition (field_definition (name) @name) @definition.method))
  (object_type_extension
    (name) @_root (fields_definition (field_definition (name) @name) @definition.method))
] (#any-of? @_root "Query" "Mutation" "Subscription"))
