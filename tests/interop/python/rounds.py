"""Rounds of a call, driven by hand: what the modern era sends where the legacy era would ask."""

from mcp.types import ElicitResult

from host import Host
from told import outcome

TOOL = "test_input_required_result_tampered_state"


async def summary(server):
    async with server.client(**Host().options()) as client:

        def call(**given):
            return client.session.call_tool(TOOL, {}, allow_input_required=True, **given)

        first = await call()
        answers = {"confirm": ElicitResult(action="accept", content={"ok": True})}
        state = first.request_state
        middle = len(state) // 2
        changed = state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
        seen = {
            "asked": list(first.input_requests),
            "changed": await outcome(call(input_responses=answers, request_state=changed)),
            "shortened": await outcome(call(input_responses=answers, request_state=state[:-4])),
            "answered": await outcome(call(input_responses=answers, request_state=state)),
            "replayed": await outcome(call(input_responses=answers, request_state=state)),
        }
        state = (await call()).request_state
        return seen | {"unanswered": await outcome(call(request_state=state))}
