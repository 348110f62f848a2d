(SuffixExpr variable_type_function: (IDENTIFIER) @reference.call . (FnCallArguments))
(FieldOrFnCall function_call: (IDENTIFIER) @reference.member)
