// The first generation of the SDK, which speaks over WebSocket too; the second has left that out.
//
// Its client gets the methods that the second generation's has, as far as the scripts call them, so
// that they can use either.

import { installed } from "./installed.mjs";

const { Client } = installed("@modelcontextprotocol/sdk/client/index.js");
export const { WebSocketClientTransport } = installed(
  "@modelcontextprotocol/sdk/client/websocket.js",
);
const types = installed("@modelcontextprotocol/sdk/types.js");

// What the first generation names by a schema, by the name of its method.
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

// The SDK itself calls these methods with schemas.
const schemaOf = (method) => SCHEMAS.get(method) ?? method;

export class FormerClient extends Client {
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
