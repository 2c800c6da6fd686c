"""Questions of the server to the user, the model and the directories behind a client.

In the legacy era they are requests of the server, in the modern era a round of the call; the
callbacks of the client are the same, and so is this script. Only in the legacy era a client hears
that what it agreed to open is over, and tells how far it is with what it was asked.
"""

from host import Host
from told import ANSWERS, Heard, outcome

ROUND = "test_input_required_result_"

# The name under which an outcome is told, the tool, its arguments.
CALLS = (
    ("sampling", "test_sampling", {"prompt": "What is the capital of France?"}),
    ("elicitation", "test_elicitation", {"message": "Who are you?"}),
    ("declined", "test_elicitation", {"message": ANSWERS["declined"]}),
    ("cancelled", "test_elicitation", {"message": ANSWERS["cancelled"]}),
    ("defaults", "test_elicitation_sep1034_defaults", {}),
    ("choices", "test_elicitation_sep1330_enums", {}),
    ("confirmation", "test_streaming_elicitation", {}),
    ("address", "test_elicitation_url", {"message": "Please sign in"}),
    ("address_declined", "test_elicitation_url", {"message": ANSWERS["declined"]}),
    ("roots", ROUND + "list_roots", {}),
    ("state", ROUND + "request_state", {}),
    ("at_once", ROUND + "multiple_inputs", {}),
    ("rounds", ROUND + "multi_round", {}),
    ("declared", ROUND + "capabilities", {}),
)


async def summary(server):
    host, completed = Host(), Heard()
    seen = {}

    async def hear(message):
        if getattr(message, "method", None) == "notifications/elicitation/complete":
            completed.add(message.params.elicitation_id)

    async with server.client(message_handler=hear, **host.options()) as client:
        for name, tool, arguments in CALLS:
            host.asked = []
            result = await outcome(client.call_tool(tool, arguments))
            seen[name] = {**result, "asked": host.asked}
        host.asked = []
        result = await outcome(client.get_prompt(ROUND + "prompt"))
        seen["prompt"] = {**result, "asked": host.asked}
        await completed.until(1 if server.is_legacy else 0)
    seen["completed"], seen["reports"] = list(completed), host.reports
    async with server.client() as client:
        seen["undeclared"] = await outcome(client.call_tool("test_missing_capability"))
        seen["nothing_declared"] = await outcome(client.call_tool(ROUND + "capabilities"))
    return seen
