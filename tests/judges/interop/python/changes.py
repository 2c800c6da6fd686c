"""Change notifications: tools, prompts, and resources of a watched directory.

A legacy client receives `list_changed` without subscribing and subscribes to resources one by one;
a modern one opens a `subscriptions/listen` stream for both. The server must serve one directory
that this script may write to.
"""

from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import anyio
from mcp.shared.subscriptions import event_to_notification

from common import EventLog, outcome, wire

TOOL, PROMPT = "test_dynamic_tool", "test_dynamic_prompt"


async def summary(server):
    received = EventLog()

    async def on_message(message):
        # A modern client receives the same notifications on its stream.
        if server.is_legacy and hasattr(message, "method"):
            received.add(notification(message))

    async with server.client(message_handler=on_message) as client:
        resources = (await client.list_resources()).resources
        uri = next(resource.uri for resource in resources if resource.uri.startswith("file:"))
        legacy = server.is_legacy
        subscribed = subscription(client, uri) if legacy else stream(client, uri, received)
        async with subscribed as honored:
            results = {"honored": honored}
            results["tools"] = await tools(client, received)
            results["prompts"] = await prompts(client, received)
            results["file"] = await file(client, received, uri)
    return results | {"uri": uri, "notifications": list(received)}


def notification(message):
    """Returns `METHOD` or, for a notification with a resource, `METHOD URI`."""
    uri = getattr(message.params, "uri", None)
    return message.method if uri is None else f"{message.method} {uri}"


@asynccontextmanager
async def subscription(client, uri):
    await client.subscribe_resource(uri)
    yield {}
    await client.unsubscribe_resource(uri)


@asynccontextmanager
async def stream(client, uri, received):
    async def follow(events):
        async for event in events:
            received.add(notification(event_to_notification(event, {})))

    request = client.listen(
        tools_list_changed=True,
        prompts_list_changed=True,
        resources_list_changed=True,
        resource_subscriptions=[uri],
    )
    async with request as events, anyio.create_task_group() as group:
        group.start_soon(follow, events)
        yield wire(events.honored)
        group.cancel_scope.cancel()


async def tools(client, received):
    """Adds a tool, calls it and removes it."""

    async def toggle(count):
        await client.call_tool("test_trigger_tool_change")
        await received.wait_for(count, "notifications/tools/list_changed")
        return TOOL in [tool.name for tool in (await client.list_tools()).tools]

    before = TOOL in [tool.name for tool in (await client.list_tools()).tools]
    added = await toggle(1)
    called = await outcome(client.call_tool(TOOL))
    return {"listed": [before, added, await toggle(2)], "called": called}


async def prompts(client, received):
    """Adds a prompt, gets it and removes it."""

    async def toggle(count):
        await client.call_tool("test_trigger_prompt_change")
        await received.wait_for(count, "notifications/prompts/list_changed")
        return PROMPT in [prompt.name for prompt in (await client.list_prompts()).prompts]

    before = PROMPT in [prompt.name for prompt in (await client.list_prompts()).prompts]
    added = await toggle(1)
    called = await outcome(client.get_prompt(PROMPT))
    return {"listed": [before, added, await toggle(2)], "called": called}


async def file(client, received, uri):
    """Rewrites a file and creates a second one in the same directory."""

    async def text():
        return (await client.read_resource(uri)).contents[0].text

    async def is_rewritten():
        return await text() == "after"

    async def is_listed():
        return second in [resource.uri for resource in (await client.list_resources()).resources]

    path = Path(unquote(urlsplit(uri).path))
    path.write_text("after")
    await wait_for_change(received, f"notifications/resources/updated {uri}", is_rewritten)
    second_path = path.with_name("second.txt")
    second = second_path.as_uri()
    second_path.write_text("second")
    await wait_for_change(received, "notifications/resources/list_changed", is_listed)
    return {"text": await text(), "second": second}


async def wait_for_change(received, item, is_done):
    """Checks after each notification: one write may cause two of them."""
    count = 1
    await received.wait_for(count, item)
    while not await is_done():
        count += 1
        await received.wait_for(count, item)
