"""Shared by all feature scripts: connections, outcomes as plain data, an event log."""

import json
from dataclasses import dataclass
from pathlib import Path

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client

# Timeout of one request.
STEP_SECONDS_MAX = 30

# Fixed responses of the user and the model, shared by all clients.
ANSWERS = json.loads((Path(__file__).parent.parent / "answers.json").read_text())


@dataclass
class Server:
    """A server to connect to, and the mode of its clients.

    `target` is a URL (Streamable HTTP, or HTTP with SSE if it ends in `/sse`) or the command line
    of a stdio server.
    """

    target: list
    mode: str

    @property
    def is_legacy(self):
        return self.mode == "legacy"

    def client(self, **options):
        """Returns an unconnected client."""
        return self.client_over(self.transport(), **options)

    def client_over(self, transport, **options):
        """Returns an unconnected client over `transport`."""
        options.setdefault("read_timeout_seconds", STEP_SECONDS_MAX)
        return Client(transport, mode=self.mode, **options)

    def transport(self):
        first, *others = self.target
        if first.startswith("http:"):
            return sse_client(first) if first.endswith("/sse") else first
        return StdioServerParameters(command=first, args=others)


def wire(model):
    """Returns an SDK model in its wire form."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def outcome(call):
    """Returns the result or the error of a call."""
    try:
        return {"result": wire(await call)}
    except MCPError as error:
        return {"error": wire(error.error)}


class EventLog(list):
    """Received messages in order of arrival."""

    def __init__(self):
        super().__init__()
        self._grown = anyio.Event()

    def add(self, item):
        self.append(item)
        self._grown.set()
        self._grown = anyio.Event()

    async def wait_for(self, count, item=None):
        """Waits for `count` items, or for `count` items equal to `item`."""
        while (len(self) if item is None else self.count(item)) < count:
            await self._grown.wait()
