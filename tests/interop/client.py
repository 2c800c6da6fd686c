"""A session with the official Python SDK, told as one JSON object on standard output.

Usage: client.py MODE COMMAND [ARGUMENT...]

MODE is what the SDK's `Client` calls it: `legacy` (the initialize handshake), `auto` (discover
first) or a modern revision. COMMAND starts the server over stdio. The script judges nothing: it
does what a client does and says what came back; `main.rs` beside it asserts.
"""

import json
import sys

import anyio
from mcp import Client, MCPError, StdioServerParameters

# Longer than any healthy step, shorter than the patience of whoever waits for the test.
STEP_SECONDS_MAX = 30


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


async def session(mode, command, arguments):
    server = StdioServerParameters(command=command, args=arguments)
    async with Client(server, mode=mode, read_timeout_seconds=STEP_SECONDS_MAX) as client:
        summary = {
            "revision": client.protocol_version,
            "server": client.server_info.name if client.server_info else None,
            "has_tools": client.server_capabilities.tools is not None,
        }
        tools = (await client.list_tools()).tools
        summary["tools"] = [tool.name for tool in tools]
        summary["schemas"] = [tool.input_schema["type"] for tool in tools]
        summary["echo"] = told(await client.call_tool("echo", {"message": "ünï ☃ \n 𝄞"}))
        summary["add"] = told(await client.call_tool("add", {"a": 2, "b": 40}))
        summary["slow"] = await slow(client, 5)
        summary["hash"] = told(await client.call_tool("hash", {"bytes": 65_536}))
        summary["cancelled"] = await cancelled(client)
        summary["unknown_tool"] = await refused(client.call_tool("nobody", {}))
        summary["bad_argument"] = await refused(client.call_tool("add", {"a": "two", "b": 40}))
        summary["afterwards"] = told(await client.call_tool("echo", {"message": "still here"}))
        return summary


async def main():
    with anyio.fail_after(4 * STEP_SECONDS_MAX):
        summary = await session(sys.argv[1], sys.argv[2], sys.argv[3:])
    print(json.dumps(summary))


if __name__ == "__main__":
    anyio.run(main)
