"""What the scripts of all features share: a connection, and outcomes as plain data."""

import json
from dataclasses import dataclass
from pathlib import Path

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client

# Longer than any healthy step, shorter than the patience of whoever waits for the test.
STEP_SECONDS_MAX = 30

# What the user and the model behind either client say.
ANSWERS = json.loads((Path(__file__).parent.parent / "answers.json").read_text())


@dataclass
class Server:
    """Where a server is, and the mode in which to speak to it.

    It is a URL, of Streamable HTTP or with `/sse` at its end of HTTP with SSE, or a command with
    its arguments that serves over stdio.
    """

    place: list
    mode: str

    @property
    def is_legacy(self):
        return self.mode == "legacy"

    def client(self, **options):
        """A client that is not connected yet."""
        return self.client_over(self.transport(), **options)

    def client_over(self, transport, **options):
        """The same over a transport of one's own."""
        options.setdefault("read_timeout_seconds", STEP_SECONDS_MAX)
        return Client(transport, mode=self.mode, **options)

    def transport(self):
        first, *others = self.place
        if first.startswith("http:"):
            return sse_client(first) if first.endswith("/sse") else first
        return StdioServerParameters(command=first, args=others)


def wire(model):
    """A model of the SDK as it stands on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def outcome(call):
    """What a call ends in: its result, or the error that refuses it."""
    try:
        return {"result": wire(await call)}
    except MCPError as error:
        return {"error": wire(error.error)}


class Heard(list):
    """What the server said unasked, in the order of its arrival."""

    def __init__(self):
        super().__init__()
        self._grown = anyio.Event()

    def add(self, item):
        self.append(item)
        self._grown.set()
        self._grown = anyio.Event()

    async def until(self, count, item=None):
        """Waits for so many items, or for so many of this one."""
        while (len(self) if item is None else self.count(item)) < count:
            await self._grown.wait()
