(function_definition name: (symbol) @name) @definition.function
(macro_definition name: (symbol) @name) @definition.macro
(source_file (special_form ["defvar" "defconst"] . (symbol) @name) @definition.constant)
(source_file (list . (symbol) @_def . (symbol) @name
  (#any-of? @_def "defcustom" "defgroup" "defface")) @definition.constant)
(list . (symbol) @_def . [(symbol) @name (list . (symbol) @name)]
  (#any-of? @_def "cl-defstruct" "defclass")) @definition.struct
(list . (symbol) @_def . (symbol) @name
  (#any-of? @_def "cl-defun" "cl-defmethod" "cl-defgeneric" "define-minor-mode"
    "define-derived-mode" "ert-deftest")) @definition.function
(list . (symbol) @_def . (symbol) @name (#eq? @_def "cl-defmacro")) @definition.macro
