// Progress and log messages.
//
// A legacy client sets the log level once (`logging/setLevel`), a modern one in each request.

import { EventLog, STEP_MS_MAX, outcome } from "./common.mjs";

const LEVEL = "io.modelcontextprotocol/logLevel";
const LOGGING = { name: "test_tool_with_logging" };

export async function summary(server) {
  const logs = new EventLog();
  const client = server.client();
  client.setNotificationHandler("notifications/message", ({ params: { level, data } }) =>
    logs.add({ level, data }),
  );
  await server.connect(client);
  const results = { progress: await progress(client) };
  for (const [level, count] of [["info", 3], ["error", 0]]) {
    logs.clear();
    if (server.isLegacy) {
      await client.setLoggingLevel(level);
    }
    const meta = server.isLegacy ? {} : { _meta: { [LEVEL]: level } };
    const result = await outcome(client.callTool({ ...LOGGING, ...meta }));
    await logs.waitFor(count);
    results[level] = { logs: logs.items, ...result };
  }
  if (!server.isLegacy) {
    logs.clear();
    const result = await outcome(client.callTool(LOGGING));
    results.no_level = { logs: logs.items, ...result };
  }
  await client.close();
  return results;
}

async function progress(client) {
  const reports = [];
  const onprogress = ({ progress: done, total, message }) => reports.push([done, total, message]);
  const call = { name: "test_tool_with_progress" };
  const result = await outcome(client.callTool(call, { onprogress, timeout: STEP_MS_MAX }));
  return { ...result, reports };
}
