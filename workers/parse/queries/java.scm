(class_declaration name: (identifier) @name) @definition.class
(record_declaration name: (identifier) @name) @definition.class
(interface_declaration name: (identifier) @name) @definition.interface
(annotation_type_declaration name: (identifier) @name) @definition.interface
(enum_declaration name: (identifier) @name) @definition.enum
(method_declaration name: (identifier) @name) @definition.method
(constructor_declaration name: (identifier) @name) @definition.method
(compact_constructor_declaration name: (identifier) @name) @definition.method
(annotation_type_element_declaration name: (identifier) @name) @definition.method
(constant_declaration
  declarator: (variable_declarator name: (identifier) @name)) @definition.constant
(field_declaration
  (modifiers "static" "final")
  declarator: (variable_declarator name: (identifier) @name)) @definition.constant

(import_declaration) @import

; uses of names
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
