"""The MCP face over HTTP: the tools of `codelode.mcp`, admitted and answered in this process."""
