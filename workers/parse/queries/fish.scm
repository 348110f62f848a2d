(function_definition name: (word) @name) @definition.function

(command name: (word) @_source (#any-of? @_source "source" ".")) @import
