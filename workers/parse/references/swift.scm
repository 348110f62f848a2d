(call_expression . (simple_identifier) @reference.call)
(call_expression . (navigation_expression
  suffix: (navigation_suffix suffix: (simple_identifier) @reference.member)))
(inheritance_specifier inherits_from: (user_type (type_identifier) @reference.implementation))
