"""The user and the model behind a client: callbacks that answer what a server asks."""

from mcp.types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)

from told import ANSWERS, wire


def content(schema):
    """A form filled in: what it suggests itself, else what the user always says."""
    fields = schema["properties"].items()
    return {name: field.get("default", ANSWERS["fields"].get(name)) for name, field in fields}


class Host:
    """Answers, and keeps what was asked."""

    def __init__(self):
        self.asked = []

    def options(self):
        """What to construct a client with."""
        return {
            "sampling_callback": self.sample,
            "elicitation_callback": self.elicit,
            "list_roots_callback": self.roots,
        }

    async def sample(self, context, params):
        self.asked.append({"method": "sampling/createMessage", "params": wire(params)})
        text = TextContent(type="text", text=ANSWERS["sampled"])
        return CreateMessageResult(role="assistant", content=text, model="interop")

    async def elicit(self, context, params):
        self.asked.append({"method": "elicitation/create", "params": wire(params)})
        if params.message == ANSWERS["declined"]:
            return ElicitResult(action="decline")
        if params.message == ANSWERS["cancelled"]:
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept", content=content(params.requested_schema))

    async def roots(self, context):
        self.asked.append({"method": "roots/list"})
        return ListRootsResult(roots=[Root(uri=ANSWERS["root"], name="project")])
