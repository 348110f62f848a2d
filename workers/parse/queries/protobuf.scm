(package (full_ident) @name) @namespace @open
(message (message_name) @name) @definition.struct
(enum (enum_name) @name) @definition.enum
(service (service_name) @name) @definition.interface
(rpc (rpc_name) @name) @definition.method
(extend (full_ident) @name) @scope
(oneof (identifier) @name) @definition.type

(import) @import
