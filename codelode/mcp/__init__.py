"""The tools, prompts, and resources of the MCP face.

A tool calls `codelode.client` and answers with a compact text. If the gateway refuses a call or
does not answer, the agent gets an error with the remedy. `stdio` serves one agent as a client of
the gateway; the gateway itself serves the same tools over HTTP.
"""
