// Version 1 of the SDK, which has a WebSocket transport; version 2 has none.
//
// Adapts its client to the methods of version 2 that the scripts call.

import { requirePackage } from "./packages.mjs";

const { Client } = requirePackage("@modelcontextprotocol/sdk/client/index.js");
export const { WebSocketClientTransport } = requirePackage(
  "@modelcontextprotocol/sdk/client/websocket.js",
);
const types = requirePackage("@modelcontextprotocol/sdk/types.js");

// Version 1 registers handlers by schema, version 2 by method.
const SCHEMAS = new Map(
  [
    types.CreateMessageRequestSchema,
    types.ElicitRequestSchema,
    types.ListRootsRequestSchema,
    types.ElicitationCompleteNotificationSchema,
    types.LoggingMessageNotificationSchema,
    types.PromptListChangedNotificationSchema,
    types.ResourceListChangedNotificationSchema,
    types.ResourceUpdatedNotificationSchema,
    types.ToolListChangedNotificationSchema,
  ].map((schema) => [schema.shape.method.value, schema]),
);

// The SDK itself passes schemas.
const schemaOf = (method) => SCHEMAS.get(method) ?? method;

export class V1Client extends Client {
  #revision;

  connect(transport, options) {
    transport.setProtocolVersion = (revision) => {
      this.#revision = revision;
    };
    return super.connect(transport, options);
  }

  getNegotiatedProtocolVersion() {
    return this.#revision;
  }

  callTool(call, options) {
    return super.callTool(call, undefined, options);
  }

  setNotificationHandler(method, handler) {
    super.setNotificationHandler(schemaOf(method), handler);
  }

  setRequestHandler(method, handler) {
    super.setRequestHandler(schemaOf(method), (request, { _meta, sendNotification, ...rest }) =>
      handler(request, { mcpReq: { _meta, notify: sendNotification }, ...rest }),
    );
  }
}
