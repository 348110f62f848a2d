(function_call name: (identifier) @reference.call)
(function_call name: (dot_index_expression field: (identifier) @reference.member))
(function_call name: (method_index_expression method: (identifier) @reference.member))
