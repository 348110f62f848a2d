(list_lit
  . value: (sym_lit name: (sym_name) @_def)
  . value: (sym_lit name: (sym_name) @name)
  (#eq? @_def "ns")) @definition.module @open
(list_lit
  . value: (sym_lit name: (sym_name) @_def)
  . value: (sym_lit name: (sym_name) @name)
  (#any-of? @_def "defn" "defn-" "defmulti" "deftest" "defmethod")) @definition.function
(list_lit
  . value: (sym_lit name: (sym_name) @_def)
  . value: (sym_lit name: (sym_name) @name)
  (#eq? @_def "defmacro")) @definition.macro
(list_lit
  . value: (sym_lit name: (sym_name) @_def)
  . value: (sym_lit name: (sym_name) @name)
  (#any-of? @_def "defprotocol" "definterface")) @definition.interface
(list_lit
  . value: (sym_lit name: (sym_name) @_def)
  . value: (sym_lit name: (sym_name) @name)
  (#any-of? @_def "defrecord" "deftype" "defstruct")) @definition.class
(list_lit
  . value: (sym_lit name: (sym_name) @_def)
  . value: (sym_lit name: (sym_name) @name)
  (#any-of? @_def "def" "defonce")) @definition.constant
