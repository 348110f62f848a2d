(class_definition name: (identifier) @name) @definition.class
(function_definition name: (identifier) @name) @definition.function
(module (assignment left: (identifier) @name) @definition.constant)
(module (type_alias_statement left: (type (identifier) @name)) @definition.type)

(import_statement) @import
(import_from_statement) @import
(future_import_statement) @import

; uses of names
(call function: (identifier) @reference.call)
(call function: (list_splat (identifier) @reference.call)) ; [*load()], as the grammar reads it
(call function: (attribute attribute: (identifier) @reference.member))
(decorator (identifier) @reference.call)
(decorator (attribute attribute: (identifier) @reference.member))
(class_definition superclasses: (argument_list [
  (identifier) @reference.implementation
  (attribute attribute: (identifier) @reference.implementation)
  (subscript value: (identifier) @reference.implementation)
]))
