(package_statement name: (package) @name (block)) @definition.module
(package_statement name: (package) @name) @definition.module @open
(class_statement name: (package) @name (block)) @definition.class
(subroutine_declaration_statement name: (bareword) @name) @definition.function
(method_declaration_statement name: (bareword) @name) @definition.method
(use_statement
  module: (package) @_constant (list_expression . (autoquoted_bareword) @name)
  (#eq? @_constant "constant")) @definition.constant

(use_statement module: (package) @_module (#not-eq? @_module "constant")) @import
(require_expression) @import
