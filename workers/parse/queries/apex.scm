(class_declaration name: (identifier) @name) @definition.class
(interface_declaration name: (identifier) @name) @definition.interface
(enum_declaration name: (identifier) @name) @definition.enum
(trigger_declaration name: (identifier) @name) @definition.function
(method_declaration name: (identifier) @name) @definition.method
(constructor_declaration name: (identifier) @name) @definition.method
(field_declaration
  (modifiers (modifier (static)) (modifier (final)))
  declarator: (variable_declarator name: (identifier) @name)) @definition.constant
