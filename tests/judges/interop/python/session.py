"""A first session: server info, tools, successful and failing calls."""

import anyio
from mcp import MCPError


def plain(result):
    """Returns a tool result as plain data."""
    return {
        "text": [block.text for block in result.content if block.type == "text"],
        "structured": result.structured_content,
        "is_error": bool(result.is_error),
    }


async def failed(call):
    """Returns the error code or failed result of a call that must not succeed."""
    try:
        return plain(await call)
    except MCPError as error:
        return {"code": error.code, "message": error.message}


async def slow(client, steps):
    """Calls `slow` and returns its result with the progress notifications."""
    reports = []

    async def progress(done, total, message):
        reports.append([done, total])

    arguments = {"steps": steps, "step_ms": 20}
    result = await client.call_tool("slow", arguments, progress_callback=progress)
    return plain(result) | {"progress": reports}


async def cancelled(client):
    """Calls `slow` for a minute and cancels it after its first progress notification."""
    started = anyio.Event()

    async def progress(done, total, message):
        started.set()

    async def run():
        arguments = {"steps": 1_000, "step_ms": 50}
        await client.call_tool("slow", arguments, progress_callback=progress)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await started.wait()
        group.cancel_scope.cancel()
    return started.is_set()


async def summary(server):
    async with server.client() as client:
        results = {
            "revision": client.protocol_version,
            "server": client.server_info.name if client.server_info else None,
            "has_tools": client.server_capabilities.tools is not None,
        }
        tools = (await client.list_tools()).tools
        results["tools"] = [tool.name for tool in tools]
        results["schemas"] = [tool.input_schema["type"] for tool in tools]
        results["echo"] = plain(await client.call_tool("echo", {"message": "ünï ☃ \n 𝄞"}))
        results["add"] = plain(await client.call_tool("add", {"a": 2, "b": 40}))
        results["slow"] = await slow(client, 5)
        results["hash"] = plain(await client.call_tool("hash", {"bytes": 65_536}))
        results["cancelled"] = await cancelled(client)
        results["unknown_tool"] = await failed(client.call_tool("unknown", {}))
        results["bad_argument"] = await failed(client.call_tool("add", {"a": "two", "b": 40}))
        results["afterwards"] = plain(await client.call_tool("echo", {"message": "still here"}))
        return results
