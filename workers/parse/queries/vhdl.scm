(entity_declaration name: (identifier) @name) @definition.module
(architecture_body name: (identifier) @name) @definition.module
(package_declaration name: (identifier) @name) @definition.module
(package_body package: (_) @name) @definition.module
(function_body designator: (_) @name) @definition.function
(procedure_body designator: (_) @name) @definition.function
(component_declaration name: (identifier) @name) @definition.interface
