// One feature of MCP, used by the official TypeScript SDK and told as one JSON object.
//
// Usage: client.mjs FEATURE MODE URL
//        client.mjs FEATURE MODE COMMAND [ARGUMENT...]
//
// FEATURE is a module beside this file. MODE is `legacy` (the initialize handshake), `auto`
// (discover first) or a modern revision to pin. URL is where a server speaks Streamable HTTP or
// WebSocket; COMMAND starts one over stdio. The scripts judge nothing: they do what a client does
// and say what came back; the tests above this folder assert.

import { STEP_MS_MAX, Server } from "./told.mjs";

const FEATURES = [
  "session",
  "content",
  "telling",
  "resources",
  "prompts",
  "asking",
  "rounds",
  "changes",
  "tasks",
  "exchanges",
];

const [feature, mode, ...place] = process.argv.slice(2);
if (!FEATURES.includes(feature)) {
  throw new Error(`no such feature: ${feature}`);
}
const patience = setTimeout(() => {
  console.error("the session did not end in time");
  process.exit(1);
}, 4 * STEP_MS_MAX);
const { summary } = await import(`./${feature}.mjs`);
console.log(JSON.stringify(await summary(new Server(mode, place))));
clearTimeout(patience);
