(call function: (identifier) @reference.call)
(call function: (attribute attribute: (identifier) @reference.member))
(decorator (identifier) @reference.call)
(decorator (attribute attribute: (identifier) @reference.member))
(class_definition superclasses: (argument_list [
  (identifier) @reference.implementation
  (attribute attribute: (identifier) @reference.implementation)
  (subscript value: (identifier) @reference.implementation)
]))
