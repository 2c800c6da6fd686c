// `input_required` results of a call, with `requestState` returned by hand (MRTR).

import { Host } from "./host.mjs";
import { outcome } from "./common.mjs";

const TOOL = "test_input_required_result_tampered_state";

export async function summary(server) {
  const client = await server.connect(new Host().client(server));
  const call = (params) =>
    client.callTool({ name: TOOL, arguments: {}, ...params }, { allowInputRequired: true });
  const first = await call();
  const inputResponses = { confirm: { action: "accept", content: { ok: true } } };
  const respond = (requestState) => outcome(call({ inputResponses, requestState }));
  const state = first.requestState;
  const middle = Math.floor(state.length / 2);
  const other = state[middle] === "A" ? "B" : "A";
  const results = {
    input_requests: Object.keys(first.inputRequests),
    changed: await respond(state.slice(0, middle) + other + state.slice(middle + 1)),
    shortened: await respond(state.slice(0, -4)),
    answered: await respond(state),
    replayed: await respond(state),
  };
  const { requestState } = await call();
  results.unanswered = await outcome(call({ requestState }));
  await client.close();
  return results;
}
