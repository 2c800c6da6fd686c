"""A first session: who the server is, its tools, calls that end well and calls that do not."""

import anyio
from mcp import MCPError


def told(result):
    """A tool result as plain data."""
    return {
        "text": [block.text for block in result.content if block.type == "text"],
        "structured": result.structured_content,
        "is_error": bool(result.is_error),
    }


async def refused(call):
    """The outcome of a call that should not succeed: an error code or a failed result."""
    try:
        return told(await call)
    except MCPError as error:
        return {"code": error.code, "message": error.message}


async def slow(client, steps):
    """Runs `slow` to its end; the progress that was reported comes back with the result."""
    seen = []

    async def progress(done, total, message):
        seen.append([done, total])

    arguments = {"steps": steps, "step_ms": 20}
    result = await client.call_tool("slow", arguments, progress_callback=progress)
    return told(result) | {"progress": seen}


async def cancelled(client):
    """Starts a `slow` that would take a minute and walks away after its first progress."""
    begun = anyio.Event()

    async def progress(done, total, message):
        begun.set()

    async def run():
        arguments = {"steps": 1_000, "step_ms": 50}
        await client.call_tool("slow", arguments, progress_callback=progress)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await begun.wait()
        group.cancel_scope.cancel()
    return begun.is_set()


async def summary(server):
    async with server.client() as client:
        seen = {
            "revision": client.protocol_version,
            "server": client.server_info.name if client.server_info else None,
            "has_tools": client.server_capabilities.tools is not None,
        }
        tools = (await client.list_tools()).tools
        seen["tools"] = [tool.name for tool in tools]
        seen["schemas"] = [tool.input_schema["type"] for tool in tools]
        seen["echo"] = told(await client.call_tool("echo", {"message": "ünï ☃ \n 𝄞"}))
        seen["add"] = told(await client.call_tool("add", {"a": 2, "b": 40}))
        seen["slow"] = await slow(client, 5)
        seen["hash"] = told(await client.call_tool("hash", {"bytes": 65_536}))
        seen["cancelled"] = await cancelled(client)
        seen["unknown_tool"] = await refused(client.call_tool("nobody", {}))
        seen["bad_argument"] = await refused(client.call_tool("add", {"a": "two", "b": 40}))
        seen["afterwards"] = told(await client.call_tool("echo", {"message": "still here"}))
        return seen
