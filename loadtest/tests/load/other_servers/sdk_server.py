"""An MCP server with the official Python SDK, over HTTP on the port in the arguments."""

import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("sdk")


@server.tool()
def echo(text: str) -> str:
    """Returns the text."""
    return text


app = server.streamable_http_app()
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
