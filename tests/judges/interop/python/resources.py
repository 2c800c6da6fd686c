"""Resources: lists, templates, text, blobs, completion and an unknown URI."""

from mcp.types import ResourceTemplateReference

from common import outcome, wire


async def summary(server):
    async with server.client() as client:
        template = ResourceTemplateReference(uri="test://template/{id}/data")
        return {
            "resources": wire(await client.list_resources())["resources"],
            "templates": wire(await client.list_resource_templates())["resourceTemplates"],
            "text": await outcome(client.read_resource("test://static-text")),
            "blob": await outcome(client.read_resource("test://static-binary")),
            "template": await outcome(client.read_resource("test://template/42/data")),
            "unknown": await outcome(client.read_resource("test://unknown")),
            "completion": await outcome(
                client.complete(template, {"name": "id", "value": "12"})
            ),
        }
