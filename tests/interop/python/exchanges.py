"""What passes over HTTP while a client calls a tool whose stream ends before its result.

The transport finds out by itself that the answer is still to come, and asks for it again by the id
of the last event; it ends its session when it is closed. Here every exchange is only noted.
"""

from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from told import outcome


class Exchanges(list):
    """Each request that was answered, in the order of the answers."""

    async def note(self, response):
        asked = response.request.headers
        self.append(
            {
                "verb": response.request.method,
                "status": response.status_code,
                "media": response.headers.get("content-type"),
                "given_session": response.headers.get("mcp-session-id"),
                "session": asked.get("mcp-session-id"),
                "resumes": asked.get("last-event-id"),
            }
        )


async def summary(server):
    exchanges = Exchanges()
    async with create_mcp_http_client() as http:
        http.event_hooks["response"].append(exchanges.note)
        transport = streamable_http_client(server.transport(), http_client=http)
        async with server.client_over(transport) as client:
            called = await outcome(client.call_tool("test_reconnection"))
    return {"called": called, "exchanges": exchanges}
