(named_module name: (long_identifier) @name) @definition.module
(namespace name: (long_identifier) @name) @namespace
(module_defn (identifier) @name) @definition.module
(type_definition (record_type_defn (type_name type_name: (_) @name))) @definition.struct
(type_definition (union_type_defn (type_name type_name: (_) @name))) @definition.enum
(type_definition (enum_type_defn (type_name type_name: (_) @name))) @definition.enum
(type_definition (interface_type_defn (type_name type_name: (_) @name))) @definition.interface
(type_definition (anon_type_defn (type_name type_name: (_) @name))) @definition.class
(type_definition (type_abbrev_defn (type_name type_name: (_) @name))) @definition.type
(function_or_value_defn
  (function_declaration_left . (identifier) @name)) @definition.function
(member_defn (method_or_prop_defn name: (property_or_ident (identifier) @name .)))
  @definition.method

(import_decl) @import
