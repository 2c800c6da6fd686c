// Questions of the server to the user, the model and the directories behind a client.
//
// In the legacy era they are requests of the server, in the modern era a round of the call; the
// handlers of the client are the same, and so is this script. Only in the legacy era a client hears
// that what it agreed to open is over, and tells how far it is with what it was asked.

import { Host } from "./host.mjs";
import { ANSWERS, Heard, outcome } from "./told.mjs";

const ROUND = "test_input_required_result_";

// The name under which an outcome is told, the tool, its arguments.
const CALLS = [
  ["sampling", "test_sampling", { prompt: "What is the capital of France?" }],
  ["elicitation", "test_elicitation", { message: "Who are you?" }],
  ["declined", "test_elicitation", { message: ANSWERS.declined }],
  ["cancelled", "test_elicitation", { message: ANSWERS.cancelled }],
  ["defaults", "test_elicitation_sep1034_defaults", {}],
  ["choices", "test_elicitation_sep1330_enums", {}],
  ["confirmation", "test_streaming_elicitation", {}],
  ["address", "test_elicitation_url", { message: "Please sign in" }],
  ["address_declined", "test_elicitation_url", { message: ANSWERS.declined }],
  ["roots", `${ROUND}list_roots`, {}],
  ["state", `${ROUND}request_state`, {}],
  ["at_once", `${ROUND}multiple_inputs`, {}],
  ["rounds", `${ROUND}multi_round`, {}],
  ["declared", `${ROUND}capabilities`, {}],
];

export async function summary(server) {
  const [host, completed] = [new Host(), new Heard()];
  const client = host.client(server);
  client.setNotificationHandler("notifications/elicitation/complete", ({ params }) =>
    completed.add(params.elicitationId),
  );
  await server.connect(client);
  const seen = {};
  for (const [name, tool, given] of CALLS) {
    host.asked = [];
    const ended = await outcome(client.callTool({ name: tool, arguments: given }));
    seen[name] = { ...ended, asked: host.asked };
  }
  host.asked = [];
  const ended = await outcome(client.getPrompt({ name: `${ROUND}prompt` }));
  seen.prompt = { ...ended, asked: host.asked };
  await completed.until(server.isLegacy ? 1 : 0);
  Object.assign(seen, { completed: completed.items, reports: host.reports });
  await client.close();

  const mute = await server.connect(server.client());
  seen.undeclared = await outcome(mute.callTool({ name: "test_missing_capability" }));
  seen.nothing_declared = await outcome(mute.callTool({ name: `${ROUND}capabilities` }));
  await mute.close();
  return seen;
}
