// A first session: who the server is, its tools, calls that end well and calls that do not.

import { STEP_MS_MAX } from "./told.mjs";

/** A tool result as plain data. */
function told(result) {
  return {
    text: result.content.filter((block) => block.type === "text").map((block) => block.text),
    structured: result.structuredContent ?? null,
    is_error: result.isError ?? false,
  };
}

/** The outcome of a call that should not succeed: an error code or a failed result. */
async function refused(call) {
  try {
    return told(await call);
  } catch (error) {
    return { code: error.code ?? null, message: String(error.message) };
  }
}

/** Runs `slow` to its end; the progress that was reported comes back with the result. */
async function slow(client, steps) {
  const progress = [];
  const onprogress = (report) => progress.push([report.progress, report.total ?? null]);
  const call = { name: "slow", arguments: { steps, step_ms: 20 } };
  const result = await client.callTool(call, { timeout: STEP_MS_MAX, onprogress });
  return { ...told(result), progress };
}

/** Starts a `slow` that would take a minute and walks away after its first progress. */
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
  const call = (name, given) => client.callTool({ name, arguments: given });
  const { tools } = await client.listTools();
  const seen = {
    revision: client.getNegotiatedProtocolVersion(),
    server: client.getServerVersion()?.name ?? null,
    has_tools: client.getServerCapabilities()?.tools !== undefined,
    tools: tools.map((tool) => tool.name),
    schemas: tools.map((tool) => tool.inputSchema.type),
    echo: told(await call("echo", { message: "ünï ☃ \n 𝄞" })),
    add: told(await call("add", { a: 2, b: 40 })),
    slow: await slow(client, 5),
    hash: told(await call("hash", { bytes: 65_536 })),
    cancelled: await cancelled(client),
    unknown_tool: await refused(call("nobody", {})),
    bad_argument: await refused(call("add", { a: "two", b: 40 })),
    afterwards: told(await call("echo", { message: "still here" })),
  };
  await client.close();
  return seen;
}
