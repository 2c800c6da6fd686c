// Lists and calls the tools of the servers `greeting_server`, one of which asks for a name.

import { Host } from "./host.mjs";
import { outcome } from "./common.mjs";

export async function summary(server) {
  const host = new Host();
  const client = await server.connect(host.client(server));
  const { tools } = await client.listTools();
  const results = {
    revision: client.getNegotiatedProtocolVersion(),
    tools: tools.map(({ name }) => name),
    echo: await outcome(client.callTool({ name: "echo", arguments: { text: "ünï ☃" } })),
    greet: await outcome(client.callTool({ name: "greet", arguments: {} })),
  };
  await client.close();
  return { ...results, requests: host.requests };
}
