"""Progress and log messages.

A legacy client sets the log level once (`logging/setLevel`), a modern one in each request.
"""

from common import EventLog, outcome

LEVEL = "io.modelcontextprotocol/logLevel"


async def summary(server):
    logs = EventLog()

    async def log(params):
        logs.add({"level": params.level, "data": params.data})

    async with server.client(logging_callback=log) as client:
        results = {"progress": await progress(client)}
        for level, count in (("info", 3), ("error", 0)):
            logs.clear()
            meta = None
            if server.is_legacy:
                await client.set_logging_level(level)
            else:
                meta = {LEVEL: level}
            result = await outcome(client.call_tool("test_tool_with_logging", meta=meta))
            await logs.wait_for(count)
            results[level] = {"logs": list(logs), **result}
        if not server.is_legacy:
            logs.clear()
            result = await outcome(client.call_tool("test_tool_with_logging"))
            results["no_level"] = {"logs": list(logs), **result}
        return results


async def progress(client):
    reports = []

    async def report(done, total, message):
        reports.append([done, total, message])

    call = client.call_tool("test_tool_with_progress", progress_callback=report)
    return {**await outcome(call), "reports": reports}
