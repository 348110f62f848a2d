(type_declaration (type_symbol_declaration name: (_) @name) (enum_declaration)) @definition.enum
(type_declaration (type_symbol_declaration name: (_) @name) (object_declaration))
  @definition.struct
(type_declaration (type_symbol_declaration name: (_) @name)) @definition.type
(proc_declaration name: (_) @name) @definition.function
(func_declaration name: (_) @name) @definition.function
(method_declaration name: (_) @name) @definition.method
(iterator_declaration name: (_) @name) @definition.function
(converter_declaration name: (_) @name) @definition.function
(template_declaration name: (_) @name) @definition.macro
(macro_declaration name: (_) @name) @definition.macro
(source_file (const_section (variable_declaration
  (symbol_declaration_list (symbol_declaration name: (_) @name))) @definition.constant))

(import_statement) @import
(import_from_statement) @import
(include_statement) @import
