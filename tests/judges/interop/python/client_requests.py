"""Elicitation, sampling and roots.

In the legacy era the server sends them as requests, in the modern era as input requests of a call
(MRTR); the client callbacks are the same for both. `notifications/elicitation/complete` and
progress of a server request exist only in the legacy era.
"""

from host import Host
from common import ANSWERS, EventLog, outcome

PREFIX = "test_input_required_result_"

# Key of the outcome in the summary, tool, arguments.
CALLS = (
    ("sampling", "test_sampling", {"prompt": "What is the capital of France?"}),
    ("elicitation", "test_elicitation", {"message": "Who are you?"}),
    ("declined", "test_elicitation", {"message": ANSWERS["declined"]}),
    ("cancelled", "test_elicitation", {"message": ANSWERS["cancelled"]}),
    ("defaults", "test_elicitation_sep1034_defaults", {}),
    ("choices", "test_elicitation_sep1330_enums", {}),
    ("confirmation", "test_streaming_elicitation", {}),
    ("url", "test_elicitation_url", {"message": "Please sign in"}),
    ("url_declined", "test_elicitation_url", {"message": ANSWERS["declined"]}),
    ("roots", PREFIX + "list_roots", {}),
    ("state", PREFIX + "request_state", {}),
    ("multiple_inputs", PREFIX + "multiple_inputs", {}),
    ("multi_round", PREFIX + "multi_round", {}),
    ("declared", PREFIX + "capabilities", {}),
)


async def summary(server):
    host, completed = Host(), EventLog()
    results = {}

    async def on_message(message):
        if getattr(message, "method", None) == "notifications/elicitation/complete":
            completed.add(message.params.elicitation_id)

    async with server.client(message_handler=on_message, **host.options()) as client:
        for name, tool, arguments in CALLS:
            host.requests = []
            result = await outcome(client.call_tool(tool, arguments))
            results[name] = {**result, "requests": host.requests}
        host.requests = []
        result = await outcome(client.get_prompt(PREFIX + "prompt"))
        results["prompt"] = {**result, "requests": host.requests}
        await completed.wait_for(1 if server.is_legacy else 0)
    results["completed"], results["progress_sent"] = list(completed), host.progress_sent
    async with server.client() as client:
        results["undeclared"] = await outcome(client.call_tool("test_missing_capability"))
        results["nothing_declared"] = await outcome(client.call_tool(PREFIX + "capabilities"))
    return results
