// Core tasks and the tasks extension, as far as this SDK supports them.
//
// The SDK has no functions for the core tasks of 2025-11-25: `request` sends their methods, with a
// schema that accepts any result.
//
// The SDK does not support the extension of 2026-07-28: it rejects every result type except
// `complete` and `input_required`, whatever the schema. For a client that declares the extension
// by hand the call therefore fails in the SDK, with an error that contains the result type `task`.

import { Host } from "./host.mjs";
import { EventLog, outcome } from "./common.mjs";

const EXTENSION = "io.modelcontextprotocol/tasks";
const JOBS = {
  slow: ["slow_compute", { seconds: 0.2, label: "ada" }],
  failing: ["failing_job", {}],
  broken: ["protocol_error_job", {}],
  confirmed: ["confirm_delete", { filename: "old.txt" }],
  twice: ["multi_input", {}],
};

// A schema that accepts any value.
const ANY = {
  "~standard": { version: 1, vendor: "interop", validate: (value) => ({ value }) },
};

export async function summary(server) {
  const results = await (server.isLegacy ? core(server) : extension(server));
  const client = await server.connect(server.client());
  const call = (name, args) => outcome(client.callTool({ name, arguments: args }));
  results.undeclared = await call("slow_compute", { seconds: 0 });
  results.required = await call("failing_job", {});
  await client.close();
  return results;
}

async function core(server) {
  const statuses = new EventLog();
  const client = new Host().client(server);
  client.setNotificationHandler("notifications/tasks/status", ({ params }) =>
    statuses.add(`${params.taskId} ${params.status}`),
  );
  await server.connect(client);
  const request = async (method, params) => client.request({ method, params }, ANY);
  const createTask = async (name, args) => {
    const { task } = await request("tools/call", { name, arguments: args, task: { ttl: 60_000 } });
    return { taskId: task.taskId };
  };

  const results = { capabilities: client.getServerCapabilities().tasks };
  for (const [job, [name, args]] of Object.entries(JOBS)) {
    const task = await createTask(name, args);
    const result = await outcome(request("tasks/result", task));
    results[job] = { ...result, status: (await request("tasks/get", task)).status };
    await statuses.waitFor(1, `${task.taskId} ${results[job].status}`);
  }
  const task = await createTask("slow_compute", { seconds: 600 });
  results.cancelled = await outcome(request("tasks/cancel", task));
  results.cancelled_twice = await outcome(request("tasks/cancel", task));
  results.not_a_task_tool = await outcome(createTask("greet", { name: "Ada" }));
  results.unknown = await outcome(request("tasks/get", { taskId: "unknown" }));
  results.listed = await outcome(request("tasks/list", {}));
  await client.close();
  return results;
}

async function extension(server) {
  const capabilities = { extensions: { [EXTENSION]: {} } };
  const client = await server.connect(server.client({ capabilities }));
  const call = (name, args) => outcome(client.callTool({ name, arguments: args }));
  const results = {
    capabilities: client.getServerCapabilities().extensions,
    declared: await call("slow_compute", { seconds: 0 }),
    inline: await call("greet", { name: "Ada" }),
  };
  await client.close();
  return results;
}
