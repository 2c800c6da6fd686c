// What the scripts of all features share: a connection, and outcomes as plain data.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages stand in the folder that the test command installed them into, not beside this file.
const installed = createRequire(pathToFileURL(`${process.env.INTEROP_PACKAGES}/`));
const { Client, SSEClientTransport, StreamableHTTPClientTransport } = installed(
  "@modelcontextprotocol/client",
);
const { StdioClientTransport } = installed("@modelcontextprotocol/client/stdio");

// Longer than any healthy step, shorter than the patience of whoever waits for the test.
export const STEP_MS_MAX = 30_000;

// What the user and the model behind either client say.
export const ANSWERS = JSON.parse(readFileSync(new URL("../answers.json", import.meta.url)));

/**
 * Where a server is, and the mode in which to speak to it: a URL, of Streamable HTTP or with `/sse`
 * at its end of HTTP with SSE, or a command with its arguments that serves over stdio.
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
    const mode = this.isLegacy || this.mode === "auto" ? this.mode : { pin: this.mode };
    const versionNegotiation = { mode };
    return new Client({ name: "interop", version: "1.0.0" }, { versionNegotiation, ...options });
  }

  async connect(client) {
    await client.connect(this.transport());
    return client;
  }

  /** A way to the server; `options` are those of its HTTP transport. */
  transport(options = {}) {
    const [first, ...args] = this.#place;
    if (!first.startsWith("http:")) {
      return new StdioClientTransport({ command: first, args });
    }
    const Transport = first.endsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport;
    return new Transport(new URL(first), options);
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
