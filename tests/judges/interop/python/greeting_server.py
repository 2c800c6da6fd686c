"""A server with FastMCP over standard streams. The tool `greet` asks for a name."""

from dataclasses import dataclass

from fastmcp import Context, FastMCP
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

MESSAGE = "Who are you?"

server = FastMCP("fastmcp")


@dataclass
class Who:
    """The form for clients up to 2025-11-25."""

    name: str


@server.tool
def echo(text: str) -> str:
    """Returns the text."""
    return text


@server.tool
async def greet(context: Context):
    """Asks for a name and greets."""
    if context.request_context.protocol_version < "2026-07-28":
        answer = await context.elicit(MESSAGE, Who)
        return f"Hello, {answer.data.name}!"
    if context.input_responses:
        return f"Hello, {context.input_responses['who'].content['name']}!"
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    }
    params = ElicitRequestFormParams(message=MESSAGE, requested_schema=schema)
    return InputRequiredResult(input_requests={"who": ElicitRequest(params=params)})


server.run(show_banner=False)
