"""The tools, prompts, and resources of the MCP face.

A tool call becomes calls of `codelode.client`, and its answer a compact text. What the gateway
refuses, and a gateway that does not answer, become errors for the agent, with the remedy. `stdio`
serves one agent as a client of the gateway; the gateway itself serves the same tools over HTTP.
"""
