"""What changes while a client is connected: tools, prompts, a watched directory and its files.

A legacy client hears of lists unasked and subscribes to resources one by one; a modern one listens
to a stream of both. `COMMAND` must offer one directory that this script may write to.
"""

from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import anyio
from mcp.shared.subscriptions import event_to_notification

from told import Heard, outcome, wire

TOOL, PROMPT = "test_dynamic_tool", "test_dynamic_prompt"


async def summary(server):
    heard = Heard()

    async def hear(message):
        # The stream of a modern client tells the same once more.
        if server.is_legacy and hasattr(message, "method"):
            heard.add(notification(message))

    async with server.client(message_handler=hear) as client:
        resources = (await client.list_resources()).resources
        uri = next(resource.uri for resource in resources if resource.uri.startswith("file:"))
        following = subscription(client, uri) if server.is_legacy else stream(client, uri, heard)
        async with following as honored:
            seen = {"honored": honored}
            seen["tools"] = await tools(client, heard)
            seen["prompts"] = await prompts(client, heard)
            seen["file"] = await file(client, heard, uri)
    return seen | {"uri": uri, "heard": list(heard)}


def notification(message):
    """The method of a notification, and the resource that it names."""
    uri = getattr(message.params, "uri", None)
    return message.method if uri is None else f"{message.method} {uri}"


@asynccontextmanager
async def subscription(client, uri):
    await client.subscribe_resource(uri)
    yield {}
    await client.unsubscribe_resource(uri)


@asynccontextmanager
async def stream(client, uri, heard):
    async def follow(events):
        async for event in events:
            heard.add(notification(event_to_notification(event, {})))

    listening = client.listen(
        tools_list_changed=True,
        prompts_list_changed=True,
        resources_list_changed=True,
        resource_subscriptions=[uri],
    )
    async with listening as events, anyio.create_task_group() as group:
        group.start_soon(follow, events)
        yield wire(events.honored)
        group.cancel_scope.cancel()


async def tools(client, heard):
    """A tool that comes, is called, and goes."""

    async def toggle(count):
        await client.call_tool("test_trigger_tool_change")
        await heard.until(count, "notifications/tools/list_changed")
        return TOOL in [tool.name for tool in (await client.list_tools()).tools]

    before = TOOL in [tool.name for tool in (await client.list_tools()).tools]
    come = await toggle(1)
    called = await outcome(client.call_tool(TOOL))
    return {"offered": [before, come, await toggle(2)], "called": called}


async def prompts(client, heard):
    """A prompt that comes, is read, and goes."""

    async def toggle(count):
        await client.call_tool("test_trigger_prompt_change")
        await heard.until(count, "notifications/prompts/list_changed")
        return PROMPT in [prompt.name for prompt in (await client.list_prompts()).prompts]

    before = PROMPT in [prompt.name for prompt in (await client.list_prompts()).prompts]
    come = await toggle(1)
    called = await outcome(client.get_prompt(PROMPT))
    return {"offered": [before, come, await toggle(2)], "called": called}


async def file(client, heard, uri):
    """A file that is rewritten, and another that appears beside it."""

    async def text():
        return (await client.read_resource(uri)).contents[0].text

    async def is_rewritten():
        return await text() == "after"

    async def is_listed():
        return second in [resource.uri for resource in (await client.list_resources()).resources]

    path = Path(unquote(urlsplit(uri).path))
    path.write_text("after")
    await settled(heard, f"notifications/resources/updated {uri}", is_rewritten)
    beside = path.with_name("second.txt")
    second = beside.as_uri()
    beside.write_text("second")
    await settled(heard, "notifications/resources/list_changed", is_listed)
    return {"text": await text(), "second": second}


async def settled(heard, item, is_there):
    """Looks with each notification, until what was done is seen: one write may be told in two."""
    count = 1
    await heard.until(count, item)
    while not await is_there():
        count += 1
        await heard.until(count, item)
