(method_invocation !object name: (identifier) @reference.call)
(method_invocation object: (_) name: (identifier) @reference.member)
(object_creation_expression type: [
  (type_identifier) @reference.class
  (generic_type (type_identifier) @reference.class)
])
(superclass [
  (type_identifier) @reference.implementation
  (generic_type (type_identifier) @reference.implementation)
])
(super_interfaces (type_list [
  (type_identifier) @reference.implementation
  (generic_type (type_identifier) @reference.implementation)
]))
(extends_interfaces (type_list [
  (type_identifier) @reference.implementation
  (generic_type (type_identifier) @reference.implementation)
]))
