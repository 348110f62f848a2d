(Decl (VarDecl
  variable_type_function: (IDENTIFIER) @name
  (ErrorUnionExpr (SuffixExpr (ContainerDecl (ContainerDeclType "enum")))))) @definition.enum
(Decl (VarDecl
  variable_type_function: (IDENTIFIER) @name
  (ErrorUnionExpr (SuffixExpr (ContainerDecl))))) @definition.struct
(Decl (VarDecl
  variable_type_function: (IDENTIFIER) @name
  (ErrorUnionExpr (SuffixExpr (ErrorSetDecl))))) @definition.enum
(Decl (FnProto function: (IDENTIFIER) @name)) @definition.function
(source_file (Decl (VarDecl variable_type_function: (IDENTIFIER) @name)) @definition.constant)
(ContainerDecl (Decl (VarDecl variable_type_function: (IDENTIFIER) @name)) @definition.constant)
(TestDecl (STRINGLITERALSINGLE) @name) @definition.function

(SuffixExpr
  (BUILTINIDENTIFIER) @_import (FnCallArguments (ErrorUnionExpr (SuffixExpr (STRINGLITERALSINGLE))))
  (#eq? @_import "@import")) @import

; uses of names
(SuffixExpr variable_type_function: (IDENTIFIER) @reference.call . (FnCallArguments))
(FieldOrFnCall function_call: (IDENTIFIER) @reference.member)
