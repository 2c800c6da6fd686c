// Shared by all feature scripts: connections, outcomes as plain data, an event log.

import { readFileSync } from "node:fs";

import { requirePackage } from "./packages.mjs";
import { V1Client, WebSocketClientTransport } from "./sdk_v1.mjs";

const { Client, SSEClientTransport, StreamableHTTPClientTransport } = requirePackage(
  "@modelcontextprotocol/client",
);
const { StdioClientTransport } = requirePackage("@modelcontextprotocol/client/stdio");

// Timeout of one request in milliseconds.
export const STEP_MS_MAX = 30_000;

// Fixed responses of the user and the model, shared by all clients.
export const ANSWERS = JSON.parse(readFileSync(new URL("../answers.json", import.meta.url)));

/**
 * A server to connect to, and the mode of its clients. The target is a URL (WebSocket, Streamable
 * HTTP, or HTTP with SSE if it ends in `/sse`) or the command line of a stdio server.
 */
export class Server {
  #target;

  constructor(mode, target) {
    this.mode = mode;
    this.#target = target;
  }

  get isLegacy() {
    return this.mode === "legacy";
  }

  /** Returns an unconnected client. */
  client(options = {}) {
    const clientInfo = { name: "interop", version: "1.0.0" };
    // Only version 1 has a WebSocket transport; version 2 borrows it for the modern era.
    if (this.isLegacy && this.#isWebSocket) {
      return new V1Client(clientInfo, options);
    }
    const mode = this.isLegacy || this.mode === "auto" ? this.mode : { pin: this.mode };
    const versionNegotiation = { mode };
    return new Client(clientInfo, { versionNegotiation, ...options });
  }

  async connect(client) {
    await client.connect(this.transport());
    return client;
  }

  /** Returns a transport to the server; `options` apply to HTTP only. */
  transport(options = {}) {
    const [first, ...args] = this.#target;
    if (this.#isWebSocket) {
      return new WebSocketClientTransport(new URL(first));
    }
    if (!first.startsWith("http:")) {
      return new StdioClientTransport({ command: first, args });
    }
    const Transport = first.endsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport;
    return new Transport(new URL(first), options);
  }

  get #isWebSocket() {
    return this.#target[0].startsWith("ws:");
  }
}

/** Returns the result or the error of a call. */
export async function outcome(call) {
  try {
    return { result: await call };
  } catch (error) {
    return { error: { code: error.code, message: error.message, data: error.data } };
  }
}

/** Received messages in order of arrival. */
export class EventLog {
  items = [];
  #waiting = [];

  add(item) {
    this.items.push(item);
    for (const wake of this.#waiting.splice(0)) {
      wake();
    }
  }

  clear() {
    this.items = [];
  }

  /** Waits for `count` items, or for `count` items equal to `item`. */
  async waitFor(count, item) {
    const matching = () =>
      item === undefined ? this.items : this.items.filter((received) => received === item);
    while (matching().length < count) {
      await new Promise((wake) => this.#waiting.push(wake));
    }
  }
}
