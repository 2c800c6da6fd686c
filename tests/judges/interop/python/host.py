"""The host of a client: callbacks for elicitation, sampling and roots.

Each callback sends progress before its result if the request has a progress token, which only
requests of the legacy era have. The session method for it is deprecated in the SDK, because a
modern client sends no progress.
"""

from mcp.types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)

from common import ANSWERS, wire


def content(schema):
    """Fills in a form: the default of each field, else the fixed answer for its name."""
    fields = schema["properties"].items()
    return {name: field.get("default", ANSWERS["fields"].get(name)) for name, field in fields}


class Host:
    """Responds to server requests and records them."""

    def __init__(self):
        self.requests = []
        self.progress_sent = 0

    def options(self):
        """Returns the options of a client with all callbacks."""
        return {
            "sampling_callback": self.sample,
            "elicitation_callback": self.elicit,
            "list_roots_callback": self.roots,
        }

    async def record(self, context, method, params=None):
        self.requests.append({"method": method, "params": params and wire(params)})
        token = (context.meta or {}).get("progress_token")
        if token is not None:
            for done in (1, 2):
                await context.session.send_progress_notification(token, done, 2, "thinking")
                self.progress_sent += 1

    async def sample(self, context, params):
        await self.record(context, "sampling/createMessage", params)
        text = TextContent(type="text", text=ANSWERS["sampled"])
        return CreateMessageResult(role="assistant", content=text, model="interop")

    async def elicit(self, context, params):
        await self.record(context, "elicitation/create", params)
        if params.message == ANSWERS["declined"]:
            return ElicitResult(action="decline")
        if params.message == ANSWERS["cancelled"]:
            return ElicitResult(action="cancel")
        if params.mode == "url":
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content=content(params.requested_schema))

    async def roots(self, context):
        await self.record(context, "roots/list")
        return ListRootsResult(roots=[Root(uri=ANSWERS["root"], name="project")])
