// Tasks of both generations, as far as this client goes.
//
// The core tasks of 2025-11-25 are in the SDK as methods without functions of their own: `request`
// sends them, with a schema that takes the answer as it is.
//
// Of the extension of 2026-07-28 the SDK knows nothing: it refuses every result type but `complete`
// and `input_required`, whatever schema it is given. A client that declares the extension by hand
// therefore sees its call refused by the SDK, which tells that the server began a task.

import { Host } from "./host.mjs";
import { Heard, outcome } from "./told.mjs";

const EXTENSION = "io.modelcontextprotocol/tasks";
const JOBS = {
  slow: ["slow_compute", { seconds: 0.2, label: "ada" }],
  failing: ["failing_job", {}],
  broken: ["protocol_error_job", {}],
  confirmed: ["confirm_delete", { filename: "old.txt" }],
  twice: ["multi_input", {}],
};

// A schema that finds nothing to object to.
const AS_IT_IS = {
  "~standard": { version: 1, vendor: "interop", validate: (value) => ({ value }) },
};

export async function summary(server) {
  const seen = await (server.isLegacy ? core(server) : extension(server));
  const client = await server.connect(server.client());
  const call = (name, given) => outcome(client.callTool({ name, arguments: given }));
  seen.undeclared = await call("slow_compute", { seconds: 0 });
  seen.required = await call("failing_job", {});
  await client.close();
  return seen;
}

async function core(server) {
  const told = new Heard();
  const client = new Host().client(server);
  client.setNotificationHandler("notifications/tasks/status", ({ params }) =>
    told.add(`${params.taskId} ${params.status}`),
  );
  await server.connect(client);
  const ask = async (method, params) => client.request({ method, params }, AS_IT_IS);
  const begin = async (name, given) => {
    const { task } = await ask("tools/call", { name, arguments: given, task: { ttl: 60_000 } });
    return { taskId: task.taskId };
  };

  const seen = { offered: client.getServerCapabilities().tasks };
  for (const [job, [name, given]] of Object.entries(JOBS)) {
    const task = await begin(name, given);
    const ended = await outcome(ask("tasks/result", task));
    seen[job] = { ...ended, status: (await ask("tasks/get", task)).status };
    await told.until(1, `${task.taskId} ${seen[job].status}`);
  }
  const task = await begin("slow_compute", { seconds: 600 });
  seen.cancelled = await outcome(ask("tasks/cancel", task));
  seen.cancelled_again = await outcome(ask("tasks/cancel", task));
  seen.refused = await outcome(begin("greet", { name: "Ada" }));
  seen.unknown = await outcome(ask("tasks/get", { taskId: "nobody" }));
  seen.listed = await outcome(ask("tasks/list", {}));
  await client.close();
  return seen;
}

async function extension(server) {
  const capabilities = { extensions: { [EXTENSION]: {} } };
  const client = await server.connect(server.client({ capabilities }));
  const call = (name, given) => outcome(client.callTool({ name, arguments: given }));
  const seen = {
    offered: client.getServerCapabilities().extensions,
    declared: await call("slow_compute", { seconds: 0 }),
    inline: await call("greet", { name: "Ada" }),
  };
  await client.close();
  return seen;
}
