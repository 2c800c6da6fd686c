// Rounds of a call, driven by hand: what the modern era sends where the legacy era would ask.

import { Host } from "./host.mjs";
import { outcome } from "./told.mjs";

const TOOL = "test_input_required_result_tampered_state";

export async function summary(server) {
  const client = await server.connect(new Host().client(server));
  const call = (given) =>
    client.callTool({ name: TOOL, arguments: {}, ...given }, { allowInputRequired: true });
  const first = await call();
  const inputResponses = { confirm: { action: "accept", content: { ok: true } } };
  const answer = (requestState) => outcome(call({ inputResponses, requestState }));
  const state = first.requestState;
  const middle = Math.floor(state.length / 2);
  const other = state[middle] === "A" ? "B" : "A";
  const seen = {
    asked: Object.keys(first.inputRequests),
    changed: await answer(state.slice(0, middle) + other + state.slice(middle + 1)),
    shortened: await answer(state.slice(0, -4)),
    answered: await answer(state),
    replayed: await answer(state),
  };
  const { requestState } = await call();
  seen.unanswered = await outcome(call({ requestState }));
  await client.close();
  return seen;
}
