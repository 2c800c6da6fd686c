// HTTP exchanges of a call whose SSE stream ends before its result.
//
// The SDK's transport resumes the stream with `Last-Event-ID`; this script only records the
// exchanges.

import { outcome } from "./common.mjs";

export async function summary(server) {
  const exchanges = [];
  const recordingFetch = async (url, init) => {
    const response = await fetch(url, init);
    const headers = new Headers(init.headers);
    exchanges.push({
      method: init.method,
      status: response.status,
      content_type: response.headers.get("content-type"),
      assigned_session: response.headers.get("mcp-session-id"),
      session: headers.get("mcp-session-id"),
      last_event_id: headers.get("last-event-id"),
    });
    return response;
  };
  const client = server.client();
  const transport = server.transport({ fetch: recordingFetch });
  await client.connect(transport);
  const called = await outcome(client.callTool({ name: "test_reconnection" }));
  await transport.terminateSession();
  await client.close();
  return { called, exchanges };
}
