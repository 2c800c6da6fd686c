"""Questions of the server to the user, the model and the directories behind a client.

In the legacy era they are requests of the server, in the modern era a round of the call; the
callbacks of the client are the same, and so is this script.
"""

from host import Host
from told import ANSWERS, outcome

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
    ("roots", ROUND + "list_roots", {}),
    ("state", ROUND + "request_state", {}),
    ("at_once", ROUND + "multiple_inputs", {}),
    ("rounds", ROUND + "multi_round", {}),
    ("declared", ROUND + "capabilities", {}),
)


async def summary(server):
    host = Host()
    seen = {}
    async with server.client(**host.options()) as client:
        for name, tool, arguments in CALLS:
            host.asked = []
            result = await outcome(client.call_tool(tool, arguments))
            seen[name] = {**result, "asked": host.asked}
        host.asked = []
        result = await outcome(client.get_prompt(ROUND + "prompt"))
        seen["prompt"] = {**result, "asked": host.asked}
    async with server.client() as client:
        seen["undeclared"] = await outcome(client.call_tool("test_missing_capability"))
        seen["nothing_declared"] = await outcome(client.call_tool(ROUND + "capabilities"))
    return seen
