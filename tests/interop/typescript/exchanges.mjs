// What passes over HTTP while a client calls a tool whose stream ends before its result.
//
// The transport finds out by itself that the answer is still to come, and asks for it again by the
// id of the last event. Here every exchange is only noted.

import { outcome } from "./told.mjs";

export async function summary(server) {
  const exchanges = [];
  const noting = async (url, init) => {
    const response = await fetch(url, init);
    const asked = new Headers(init.headers);
    exchanges.push({
      verb: init.method,
      status: response.status,
      media: response.headers.get("content-type"),
      given_session: response.headers.get("mcp-session-id"),
      session: asked.get("mcp-session-id"),
      resumes: asked.get("last-event-id"),
    });
    return response;
  };
  const client = server.client();
  const transport = server.transport({ fetch: noting });
  await client.connect(transport);
  const called = await outcome(client.callTool({ name: "test_reconnection" }));
  await transport.terminateSession();
  await client.close();
  return { called, exchanges };
}
