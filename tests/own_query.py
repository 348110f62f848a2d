"""A repository's own query, and code in which it finds more than the built-in one."""

QUERY = ".codelode/queries/python.scm"
ROUTES = """\
(call
  function: (identifier) @_route arguments: (argument_list . (string (string_content) @name))
  (#eq? @_route "route")) @definition.constant
"""
ROUTED = 'route("/uploads", list_uploads)\ndef list_uploads():\n    return uploads\n'
