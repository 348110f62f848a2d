(mixin_statement name: (identifier) @name) @definition.function
(function_statement name: (identifier) @name) @definition.function
(keyframes_statement (keyframes_name) @name) @definition.function
(rule_set (selectors (placeholder (identifier) @name))) @definition.class
(stylesheet
  (declaration (property_name) @name (#match? @name "^\\$")) @definition.constant)

(use_statement) @import
(forward_statement) @import
(import_statement) @import
