"""codelode: semantic code search across all the repositories of an organisation.

This package is the shared kernel: the vocabulary, the ports, the errors and the backends that
the write side (`workers`) and the read side (`gateway`) must agree on. It imports neither.
"""

__version__ = "0.1.0"
