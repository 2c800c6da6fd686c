"""`input_required` results of a call, with `requestState` returned by hand (MRTR)."""

from mcp.types import ElicitResult

from host import Host
from common import outcome

TOOL = "test_input_required_result_tampered_state"


async def summary(server):
    async with server.client(**Host().options()) as client:

        def call(**params):
            return client.session.call_tool(TOOL, {}, allow_input_required=True, **params)

        first = await call()
        responses = {"confirm": ElicitResult(action="accept", content={"ok": True})}
        state = first.request_state
        middle = len(state) // 2
        changed = state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
        results = {
            "input_requests": list(first.input_requests),
            "changed": await outcome(call(input_responses=responses, request_state=changed)),
            "shortened": await outcome(call(input_responses=responses, request_state=state[:-4])),
            "answered": await outcome(call(input_responses=responses, request_state=state)),
            "replayed": await outcome(call(input_responses=responses, request_state=state)),
        }
        state = (await call()).request_state
        return results | {"unanswered": await outcome(call(request_state=state))}
