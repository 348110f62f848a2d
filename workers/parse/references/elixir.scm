(call target: (identifier) @reference.call)
(call target: (dot right: (identifier) @reference.member))
