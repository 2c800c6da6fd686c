// Progress and log messages.
//
// A legacy client names a level once (`logging/setLevel`); a modern one names it in each request.

import { Heard, STEP_MS_MAX, outcome } from "./told.mjs";

const LEVEL = "io.modelcontextprotocol/logLevel";
const LOGGING = { name: "test_tool_with_logging" };

export async function summary(server) {
  const logs = new Heard();
  const client = server.client();
  client.setNotificationHandler("notifications/message", ({ params: { level, data } }) =>
    logs.add({ level, data }),
  );
  await server.connect(client);
  const seen = { progress: await progress(client) };
  for (const [level, count] of [["info", 3], ["error", 0]]) {
    logs.clear();
    if (server.isLegacy) {
      await client.setLoggingLevel(level);
    }
    const asked = server.isLegacy ? {} : { _meta: { [LEVEL]: level } };
    const ended = await outcome(client.callTool({ ...LOGGING, ...asked }));
    await logs.until(count);
    seen[level] = { logs: logs.items, ...ended };
  }
  if (!server.isLegacy) {
    logs.clear();
    const ended = await outcome(client.callTool(LOGGING));
    seen.unasked = { logs: logs.items, ...ended };
  }
  await client.close();
  return seen;
}

async function progress(client) {
  const reports = [];
  const onprogress = ({ progress: done, total, message }) => reports.push([done, total, message]);
  const call = { name: "test_tool_with_progress" };
  const ended = await outcome(client.callTool(call, { onprogress, timeout: STEP_MS_MAX }));
  return { ...ended, reports };
}
