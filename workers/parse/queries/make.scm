(rule (targets (word) @name) (#not-match? @name "^[.%$]")) @definition.function
(define_directive name: (_) @name) @definition.macro
(makefile (variable_assignment name: (word) @name) @definition.constant)
(makefile (export_directive (variable_assignment name: (word) @name) @definition.constant))

(include_directive) @import
