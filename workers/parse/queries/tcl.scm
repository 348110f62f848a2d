(procedure name: (_) @name) @definition.function
(namespace (word_list
  . (simple_word) @_eval . (simple_word) @name (#eq? @_eval "eval"))) @definition.module
