// Uses one feature of MCP through the official TypeScript SDK and prints a JSON summary.
//
// Usage: client.mjs FEATURE MODE URL
//        client.mjs FEATURE MODE COMMAND [ARGUMENT...]
//
// FEATURE is a module in this directory. MODE is `legacy` (the initialize handshake), `auto`
// (discover first) or a modern revision to pin. URL is a Streamable HTTP or WebSocket endpoint;
// COMMAND starts a stdio server. The scripts assert nothing; the tests in `tests/judges/interop`
// check the summary.

import { STEP_MS_MAX, Server } from "./common.mjs";

const FEATURES = [
  "session",
  "content",
  "progress_and_logging",
  "resources",
  "prompts",
  "client_requests",
  "input_required",
  "changes",
  "tasks",
  "resumption",
  "greeting",
];

const [feature, mode, ...target] = process.argv.slice(2);
if (!FEATURES.includes(feature)) {
  throw new Error(`no such feature: ${feature}`);
}
const timeout = setTimeout(() => {
  console.error(`timed out after ${4 * STEP_MS_MAX} ms`);
  process.exit(1);
}, 4 * STEP_MS_MAX);
const { summary } = await import(`./${feature}.mjs`);
console.log(JSON.stringify(await summary(new Server(mode, target))));
clearTimeout(timeout);
