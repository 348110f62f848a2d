"""The command line: a client of the gateway, plus `up`, which starts the embedded cluster.

Results go to stdout, everything else to stderr. Exit status: 0 found or done, 1 a search found
nothing, 2 an error, 130 interrupted. An error is one plain line with its remedy.
"""

from codelode.cli.command import main

__all__ = ["main"]
