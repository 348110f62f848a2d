"""The MCP face: serve agents over stdin and stdout as a client of the gateway.

A tool call becomes calls of `codelode.client`, and its answer a compact text. What the gateway
refuses, and a gateway that does not answer, become errors for the agent, with the remedy.
"""

from codelode.mcp.server import serve

__all__ = ["serve"]
