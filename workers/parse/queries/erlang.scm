(module_attribute name: (atom) @name) @definition.module @open
(record_decl name: (atom) @name) @definition.struct
(pp_define lhs: (macro_lhs name: (_) @name)) @definition.macro
(type_alias name: (type_name name: (atom) @name)) @definition.type
(opaque name: (type_name name: (atom) @name)) @definition.type
(callback fun: (atom) @name) @definition.function
(fun_decl clause: (function_clause name: (atom) @name)) @definition.function

(export_attribute funs: (fa fun: (atom) @exported))

(import_attribute) @import
(pp_include) @import
(pp_include_lib) @import
