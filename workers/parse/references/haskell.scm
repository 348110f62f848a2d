(apply function: (variable) @reference.call)
