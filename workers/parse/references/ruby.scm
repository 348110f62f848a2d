(call !receiver method: (identifier) @reference.call)
(call receiver: (_) method: (identifier) @reference.member
  (#not-eq? @reference.member "new"))
(call receiver: (constant) @reference.class)
(superclass [
  (constant) @reference.implementation
  (scope_resolution name: (constant) @reference.implementation)
])
