(class name: [(constant) (scope_resolution)] @name) @definition.class
(module name: [(constant) (scope_resolution)] @name) @definition.module
(body_statement (method name: (_) @name) @definition.method)
(method name: (_) @name) @definition.function
(singleton_method name: (_) @name) @definition.method
(assignment left: (constant) @name) @definition.constant
(alias name: (_) @name) @definition.method
(call !receiver method: (identifier) @_attributes
  arguments: (argument_list (simple_symbol) @name)
  (#match? @_attributes "^([mc]|thread_[mc])?attr(_internal)?(_reader|_writer|_accessor)?$|^class_attribute$")) @definition.method
(call !receiver method: (identifier) @_define
  arguments: (argument_list . (simple_symbol) @name)
  (#any-of? @_define "define_method" "define_singleton_method" "alias_method")) @definition.method

(call
  !receiver method: (identifier) @_require arguments: (argument_list . (string))
  (#any-of? @_require "require" "require_relative" "load" "autoload")) @import

; uses of names
(call !receiver method: (identifier) @reference.call)
(call receiver: (_) method: (identifier) @reference.member
  (#not-eq? @reference.member "new"))
(call receiver: (constant) @reference.class)
(body_statement (identifier) @reference.call)
(then (identifier) @reference.call)
(superclass [
  (constant) @reference.implementation
  (scope_resolution name: (constant) @reference.implementation)
])
