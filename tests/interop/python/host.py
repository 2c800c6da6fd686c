"""The user and the model behind a client: callbacks that answer what a server asks.

Each tells how far it is before it answers, where the question came with a token for that: only the
requests of the legacy era do. It uses a method of the session that the SDK calls deprecated, for
progress goes only one way in the modern era.
"""

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
        self.reports = 0

    def options(self):
        """What to construct a client with."""
        return {
            "sampling_callback": self.sample,
            "elicitation_callback": self.elicit,
            "list_roots_callback": self.roots,
        }

    async def hear(self, context, method, params=None):
        self.asked.append({"method": method, "params": params and wire(params)})
        token = (context.meta or {}).get("progress_token")
        if token is not None:
            for done in (1, 2):
                await context.session.send_progress_notification(token, done, 2, "thinking")
                self.reports += 1

    async def sample(self, context, params):
        await self.hear(context, "sampling/createMessage", params)
        text = TextContent(type="text", text=ANSWERS["sampled"])
        return CreateMessageResult(role="assistant", content=text, model="interop")

    async def elicit(self, context, params):
        await self.hear(context, "elicitation/create", params)
        if params.message == ANSWERS["declined"]:
            return ElicitResult(action="decline")
        if params.message == ANSWERS["cancelled"]:
            return ElicitResult(action="cancel")
        if params.mode == "url":
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content=content(params.requested_schema))

    async def roots(self, context):
        await self.hear(context, "roots/list")
        return ListRootsResult(roots=[Root(uri=ANSWERS["root"], name="project")])
