; Selectors are not names: a rule is found by its text.
(keyframes_statement (keyframes_name) @name) @definition.function
(stylesheet (rule_set
  (selectors (pseudo_class_selector (class_name) @_root))
  (block (declaration (property_name) @name) @definition.constant))
  (#eq? @_root "root") (#match? @name "^--"))

(import_statement) @import
