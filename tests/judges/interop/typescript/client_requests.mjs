// Elicitation, sampling and roots.
//
// In the legacy era the server sends them as requests, in the modern era as input requests of a
// call (MRTR); the client handlers are the same for both. `notifications/elicitation/complete` and
// progress of a server request exist only in the legacy era.

import { Host } from "./host.mjs";
import { ANSWERS, EventLog, outcome } from "./common.mjs";

const PREFIX = "test_input_required_result_";

// Key of the outcome in the summary, tool, arguments.
const CALLS = [
  ["sampling", "test_sampling", { prompt: "What is the capital of France?" }],
  ["elicitation", "test_elicitation", { message: "Who are you?" }],
  ["declined", "test_elicitation", { message: ANSWERS.declined }],
  ["cancelled", "test_elicitation", { message: ANSWERS.cancelled }],
  ["defaults", "test_elicitation_sep1034_defaults", {}],
  ["choices", "test_elicitation_sep1330_enums", {}],
  ["confirmation", "test_streaming_elicitation", {}],
  ["url", "test_elicitation_url", { message: "Please sign in" }],
  ["url_declined", "test_elicitation_url", { message: ANSWERS.declined }],
  ["roots", `${PREFIX}list_roots`, {}],
  ["state", `${PREFIX}request_state`, {}],
  ["multiple_inputs", `${PREFIX}multiple_inputs`, {}],
  ["multi_round", `${PREFIX}multi_round`, {}],
  ["declared", `${PREFIX}capabilities`, {}],
];

export async function summary(server) {
  const [host, completed] = [new Host(), new EventLog()];
  const client = host.client(server);
  client.setNotificationHandler("notifications/elicitation/complete", ({ params }) =>
    completed.add(params.elicitationId),
  );
  await server.connect(client);
  const results = {};
  for (const [name, tool, args] of CALLS) {
    host.requests = [];
    const result = await outcome(client.callTool({ name: tool, arguments: args }));
    results[name] = { ...result, requests: host.requests };
  }
  host.requests = [];
  const result = await outcome(client.getPrompt({ name: `${PREFIX}prompt` }));
  results.prompt = { ...result, requests: host.requests };
  await completed.waitFor(server.isLegacy ? 1 : 0);
  Object.assign(results, { completed: completed.items, progress_sent: host.progressSent });
  await client.close();

  const incapable = await server.connect(server.client());
  results.undeclared = await outcome(incapable.callTool({ name: "test_missing_capability" }));
  results.nothing_declared = await outcome(incapable.callTool({ name: `${PREFIX}capabilities` }));
  await incapable.close();
  return results;
}
