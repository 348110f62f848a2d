(binding attrpath: (attrpath) @name expression: (function_expression)) @definition.function
(let_expression (binding_set
  (binding attrpath: (attrpath) @name) @definition.constant))
(source_code expression: [
  (attrset_expression (binding_set
    (binding attrpath: (attrpath) @name) @definition.constant))
  (rec_attrset_expression (binding_set
    (binding attrpath: (attrpath) @name) @definition.constant))
  (function_expression body: [
    (attrset_expression (binding_set
      (binding attrpath: (attrpath) @name) @definition.constant))
    (let_expression body: (attrset_expression (binding_set
      (binding attrpath: (attrpath) @name) @definition.constant)))
  ])
  (let_expression body: (attrset_expression (binding_set
    (binding attrpath: (attrpath) @name) @definition.constant)))
])

(apply_expression function: (variable_expression) @_import (#eq? @_import "import")) @import
