"""An MCP server with FastMCP: over stdio, or over HTTP on the port in the arguments."""

import sys

from fastmcp import FastMCP

server = FastMCP("fastmcp")


@server.tool(annotations={"readOnlyHint": True})
def add(a: int = 1, b: int = 2) -> int:
    """Adds two numbers."""
    return a + b


if len(sys.argv) > 1:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
else:
    server.run(show_banner=False)
