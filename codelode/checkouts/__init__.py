"""Work with a developer's own checkout: its uncommitted state, its changes, and its git hooks.

Everything here runs as the developer, on the developer's machine, with the developer's git
configuration. It leaves the index, the branches, and the work tree as they are.
"""
