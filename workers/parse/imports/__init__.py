"""Imports: as a file writes them, and the repository paths that each could mean.

`read` gives what is written; `candidates` is pure and lists paths that would satisfy one import,
most likely first. Which of them exist is the ledger's knowledge, so the caller asks it.
"""

from workers.parse.imports.paths import candidates
from workers.parse.imports.written import read

__all__ = ["candidates", "read"]
