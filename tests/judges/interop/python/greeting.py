"""Lists and calls the tools of the servers `greeting_server`, one of which asks for a name."""

from common import outcome
from host import Host


async def summary(server):
    host = Host()
    async with server.client(**host.options()) as client:
        tools = (await client.list_tools()).tools
        results = {
            "revision": client.protocol_version,
            "tools": [tool.name for tool in tools],
            "echo": await outcome(client.call_tool("echo", {"text": "ünï ☃"})),
            "greet": await outcome(client.call_tool("greet", {})),
        }
    return results | {"requests": host.requests}
