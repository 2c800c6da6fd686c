// A first session: server info, tools, successful and failing calls.

import { STEP_MS_MAX } from "./common.mjs";

/** Returns a tool result as plain data. */
function plain(result) {
  return {
    text: result.content.filter((block) => block.type === "text").map((block) => block.text),
    structured: result.structuredContent ?? null,
    is_error: result.isError ?? false,
  };
}

/** Returns the error code or failed result of a call that must not succeed. */
async function failed(call) {
  try {
    return plain(await call);
  } catch (error) {
    return { code: error.code ?? null, message: String(error.message) };
  }
}

/** Calls `slow` and returns its result with the progress notifications. */
async function slow(client, steps) {
  const progress = [];
  const onprogress = (report) => progress.push([report.progress, report.total ?? null]);
  const call = { name: "slow", arguments: { steps, step_ms: 20 } };
  const result = await client.callTool(call, { timeout: STEP_MS_MAX, onprogress });
  return { ...plain(result), progress };
}

/** Calls `slow` for a minute and cancels it after its first progress notification. */
async function cancelled(client) {
  const abort = new AbortController();
  const options = { signal: abort.signal, onprogress: () => abort.abort(), timeout: STEP_MS_MAX };
  const call = { name: "slow", arguments: { steps: 1_000, step_ms: 50 } };
  try {
    await client.callTool(call, options);
    return false;
  } catch {
    return abort.signal.aborted;
  }
}

export async function summary(server) {
  const client = server.client();
  await server.connect(client);
  const call = (name, args) => client.callTool({ name, arguments: args });
  const { tools } = await client.listTools();
  const results = {
    revision: client.getNegotiatedProtocolVersion(),
    server: client.getServerVersion()?.name ?? null,
    has_tools: client.getServerCapabilities()?.tools !== undefined,
    tools: tools.map((tool) => tool.name),
    schemas: tools.map((tool) => tool.inputSchema.type),
    echo: plain(await call("echo", { message: "ünï ☃ \n 𝄞" })),
    add: plain(await call("add", { a: 2, b: 40 })),
    slow: await slow(client, 5),
    hash: plain(await call("hash", { bytes: 65_536 })),
    cancelled: await cancelled(client),
    unknown_tool: await failed(call("unknown", {})),
    bad_argument: await failed(call("add", { a: "two", b: 40 })),
    afterwards: plain(await call("echo", { message: "still here" })),
  };
  await client.close();
  return results;
}
