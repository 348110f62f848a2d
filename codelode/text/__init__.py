"""Write answers as lines of text, for the command line and for agents alike.

Nothing here knows a terminal: `Look` says how wide lines may be and how their parts are emphasised.
"""
