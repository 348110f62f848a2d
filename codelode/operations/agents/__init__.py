"""Configure agents on this machine to use codelode, and undo that.

Each agent reads a JSON or TOML file of the user or of a project. A change adds, replaces, or
removes one entry in the text of that file and keeps everything else, including comments. The text
before the first change is kept, so that undoing restores it exactly if nobody has changed the file
since. Raises InvalidSettings for a file that cannot be changed safely.
"""

from codelode.operations.agents.changes import Change, applied, installation, removal
from codelode.operations.agents.table import AGENTS, Agent

__all__ = ["AGENTS", "Agent", "Change", "applied", "installation", "removal"]
