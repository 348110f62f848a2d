(create_table (object_reference) @name) @definition.struct
(create_view (object_reference) @name) @definition.struct
(create_materialized_view (object_reference) @name) @definition.struct
(create_type (object_reference) @name) @definition.type
(create_function (object_reference name: (identifier) @name)) @definition.function
(create_trigger . (_)* . (keyword_trigger) . (object_reference name: (identifier) @name))
  @definition.function
(create_sequence (object_reference) @name) @definition.constant
(create_schema (identifier) @name) @definition.module
(cte (identifier) @name) @definition.type
