"""Redis or Valkey behind the ports: ledger, dependency graph, symbol table, query cache.

One client from `connection.connect` serves all of them; every key starts with the caller's
prefix, and what belongs to one repository shares a hash tag, so that one script may touch all of
it. Whatever the client library raises leaves this package as one of `codelode.errors`. Needs a
server that speaks Redis 6.2 or newer.
"""
