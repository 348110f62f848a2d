"""Ports implemented with Redis or Valkey: ledger, dependency graph, symbol table, caches.

One client from `connection.connect` serves all of them. Every key starts with a common prefix, and
the keys of a repository share a hash tag, so that one script may access all of them. Errors of the
client library are translated into `codelode.errors`. Requires Redis 6.2 or newer, or Valkey.
"""
