// What the scripts of all features share: a connection, and outcomes as plain data.

import { readFileSync } from "node:fs";

import { FormerClient, WebSocketClientTransport } from "./former.mjs";
import { installed } from "./installed.mjs";

const { Client, SSEClientTransport, StreamableHTTPClientTransport } = installed(
  "@modelcontextprotocol/client",
);
const { StdioClientTransport } = installed("@modelcontextprotocol/client/stdio");

// Longer than any healthy step, shorter than the patience of whoever waits for the test.
export const STEP_MS_MAX = 30_000;

// What the user and the model behind either client say.
export const ANSWERS = JSON.parse(readFileSync(new URL("../answers.json", import.meta.url)));

/**
 * Where a server is, and the mode in which to speak to it: a URL, of a WebSocket, of Streamable
 * HTTP or with `/sse` at its end of HTTP with SSE, or a command with its arguments that serves over
 * stdio.
 */
export class Server {
  #place;

  constructor(mode, place) {
    this.mode = mode;
    this.#place = place;
  }

  get isLegacy() {
    return this.mode === "legacy";
  }

  /** A client that is not connected yet. */
  client(options = {}) {
    const who = { name: "interop", version: "1.0.0" };
    // Whoever speaks over WebSocket is of the first generation, unless the era is younger than it.
    if (this.isLegacy && this.#isWebSocket) {
      return new FormerClient(who, options);
    }
    const mode = this.isLegacy || this.mode === "auto" ? this.mode : { pin: this.mode };
    const versionNegotiation = { mode };
    return new Client(who, { versionNegotiation, ...options });
  }

  async connect(client) {
    await client.connect(this.transport());
    return client;
  }

  /** A way to the server; `options` are those of its HTTP transport. */
  transport(options = {}) {
    const [first, ...args] = this.#place;
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
    return this.#place[0].startsWith("ws:");
  }
}

/** What a call ends in: its result, or the error that refuses it. */
export async function outcome(call) {
  try {
    return { result: await call };
  } catch (error) {
    return { error: { code: error.code, message: error.message, data: error.data } };
  }
}

/** What the server said unasked, in the order of its arrival. */
export class Heard {
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

  /** Waits for so many items, or for so many of this one. */
  async until(count, item) {
    const counted = () =>
      item === undefined ? this.items : this.items.filter((heard) => heard === item);
    while (counted().length < count) {
      await new Promise((wake) => this.#waiting.push(wake));
    }
  }
}
