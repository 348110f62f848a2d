(type_alias_declaration name: (upper_case_identifier) @name) @definition.type
(type_declaration name: (upper_case_identifier) @name) @definition.enum
(port_annotation name: (lower_case_identifier) @name) @definition.function
(file (value_declaration functionDeclarationLeft:
  (function_declaration_left (lower_case_identifier) @name)) @definition.function)

(import_clause) @import
