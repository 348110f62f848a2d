(declarations (signature name: (variable) @name) @definition.function)
(declarations (function name: (variable) @name) @definition.function)
(declarations (bind name: (variable) @name) @definition.function)
(declarations (function (infix operator: (_) @name)) @definition.function)
(class_declarations (signature name: (variable) @name) @definition.method)
(class_declarations (function name: (variable) @name) @definition.method)
(instance_declarations (function name: (variable) @name) @definition.method)
(instance_declarations (bind name: (variable) @name) @definition.method)
(data_type name: (_) @name) @definition.type
(newtype name: (_) @name) @definition.type
(type_synomym name: (_) @name) @definition.type
(type_family name: (_) @name) @definition.type
(data_family name: (_) @name) @definition.type
(class name: (_) @name) @definition.trait
(instance name: (_) @name) @scope

(import) @import

; uses of names
(apply function: (variable) @reference.call)
