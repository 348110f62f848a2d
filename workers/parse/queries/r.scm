(binary_operator
  lhs: [(identifier) (string)] @name operator: ["<-" "=" "<<-"]
  rhs: (function_definition)) @definition.function
(binary_operator
  lhs: (identifier) @name operator: ["<-" "="]
  rhs: (call function: (_) @_class)
  (#match? @_class "^(R6::)?(R6Class|setRefClass|ggproto)$")) @definition.class
(call
  function: (identifier) @_class
  arguments: (arguments . (argument value: (string (string_content) @name)))
  (#any-of? @_class "setClass" "setRefClass" "setClassUnion")) @definition.class
(call
  function: (identifier) @_generic
  arguments: (arguments . (argument value: (string (string_content) @name)))
  (#any-of? @_generic "setGeneric")) @definition.function
(call
  function: (identifier) @_method
  arguments: (arguments
    . (argument value: (string (string_content) @name))
    (comma) . (argument value: (string (string_content) @receiver)))
  (#eq? @_method "setMethod")) @definition.method
(binary_operator rhs: (call
  function: (_) @_class
  arguments: (arguments (argument value: (call
    function: (identifier) @_list
    arguments: (arguments
      (argument name: (identifier) @name value: (function_definition)) @definition.method)))))
  (#match? @_class "^(R6::)?R6Class$") (#eq? @_list "list"))
(program
  (binary_operator lhs: (identifier) @name operator: ["<-" "="]) @definition.constant)

(call
  function: (identifier) @_import
  (#any-of? @_import "library" "require" "requireNamespace" "source")) @import
