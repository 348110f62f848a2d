"""Write answers as lines of text, for the command line and for agents alike.

Nothing here depends on a terminal: `Look` defines the width of lines and how parts are emphasised.
"""
