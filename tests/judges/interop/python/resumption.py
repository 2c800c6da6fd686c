"""HTTP exchanges of a call whose SSE stream ends before its result.

The SDK's transport resumes the stream with `Last-Event-ID` and deletes its session on close; this
script only records the exchanges.
"""

from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from common import outcome


class Exchanges(list):
    """HTTP requests in the order of their responses."""

    async def record(self, response):
        headers = response.request.headers
        self.append(
            {
                "method": response.request.method,
                "status": response.status_code,
                "content_type": response.headers.get("content-type"),
                "assigned_session": response.headers.get("mcp-session-id"),
                "session": headers.get("mcp-session-id"),
                "last_event_id": headers.get("last-event-id"),
            }
        )


async def summary(server):
    exchanges = Exchanges()
    async with create_mcp_http_client() as http:
        http.event_hooks["response"].append(exchanges.record)
        transport = streamable_http_client(server.transport(), http_client=http)
        async with server.client_over(transport) as client:
            called = await outcome(client.call_tool("test_reconnection"))
    return {"called": called, "exchanges": exchanges}
