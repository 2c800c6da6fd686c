"""Content types of tool results, and `tools/list`."""

from common import outcome, wire

TOOLS = (
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_icons",
    "test_error_handling",
)


async def summary(server):
    async with server.client() as client:
        tools = (await client.list_tools()).tools
        calls = {name: await outcome(client.call_tool(name)) for name in TOOLS}
        contact = {"name": "Ada", "contactMethod": "email", "email": "ada@example.org"}
        return {
            "tools": {tool.name: wire(tool) for tool in tools},
            "calls": calls,
            "structured": await outcome(client.call_tool("add", {"a": 2, "b": 40})),
            "contact": await outcome(client.call_tool("json_schema_2020_12_tool", contact)),
            "bad_contact": await outcome(
                client.call_tool("json_schema_2020_12_tool", contact | {"age": 36})
            ),
            "region": await outcome(client.call_tool("test_header_parameter", {"region": "eu"})),
        }
