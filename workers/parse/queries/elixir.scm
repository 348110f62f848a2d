(call
  target: (identifier) @_keyword (arguments . (alias) @name)
  (#any-of? @_keyword "defmodule" "defprotocol")) @definition.module
(call
  target: (identifier) @_keyword (arguments . (alias) @name)
  (#eq? @_keyword "defimpl")) @scope
(call
  target: (identifier) @_keyword
  (arguments . [
    (identifier) @name
    (call target: (identifier) @name)
    (binary_operator left: (call target: (identifier) @name) operator: "when")
    (binary_operator left: (identifier) @name operator: "when")
  ])
  (#any-of? @_keyword "def" "defp" "defdelegate" "defn" "defnp")) @definition.function
(call
  target: (identifier) @_keyword
  (arguments . [
    (identifier) @name
    (call target: (identifier) @name)
    (binary_operator left: (call target: (identifier) @name) operator: "when")
  ])
  (#any-of? @_keyword "defmacro" "defmacrop" "defguard" "defguardp")) @definition.macro
(unary_operator operator: "@" operand: (call
  target: (identifier) @_keyword
  (arguments . (binary_operator
    left: [(call target: (identifier) @name) (identifier) @name] operator: "::"))
  (#any-of? @_keyword "type" "typep" "opaque"))) @definition.type
(unary_operator operator: "@" operand: (call
  target: (identifier) @_keyword
  (arguments . (binary_operator left: (call target: (identifier) @name) operator: "::"))
  (#any-of? @_keyword "callback" "macrocallback"))) @definition.function

(call
  target: (identifier) @_keyword (arguments . [(alias) (dot)])
  (#any-of? @_keyword "alias" "import" "use" "require")) @import

; uses of names
(call target: (identifier) @reference.call)
(call target: (dot right: (identifier) @reference.member))
(binary_operator operator: "|>" right: (identifier) @reference.call)

; heads of definitions, attributes such as `@spec`, and their keywords are calls by form alone
(call
  target: (identifier) @_keyword @reference.none
  (arguments . [
    (call target: (identifier) @reference.none)
    (binary_operator left: (call target: (identifier) @reference.none) operator: "when")
    (alias)
  ]?)
  (#match? @_keyword "^def"))
(unary_operator operator: "@" operand: (call target: (identifier) @reference.none))
(unary_operator operator: "@" operand: (call (arguments . [
  (binary_operator left: (call target: (identifier) @reference.none) operator: "::")
  (binary_operator
    left: (binary_operator left: (call target: (identifier) @reference.none) operator: "::")
    operator: "when")
])))
