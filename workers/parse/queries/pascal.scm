(declType name: (_) @name type: (declClass (kRecord))) @definition.struct
(declType name: (_) @name type: (declClass)) @definition.class
(declType name: (_) @name type: (declIntf)) @definition.interface
(declType name: (_) @name type: (type (declEnum))) @definition.enum
(declType name: (_) @name) @definition.type
(defProc header: (declProc name: (_) @name)) @definition.function
(interface (declProc name: (_) @name) @definition.function)
(declClass (declProc name: (_) @name) @definition.method)
(declSection (declProc name: (_) @name) @definition.method)
(declIntf (declProc name: (_) @name) @definition.method)
(unit (interface (declConsts (declConst name: (_) @name) @definition.constant)))
(unit (implementation (declConsts (declConst name: (_) @name) @definition.constant)))

(declUses) @import
