// An MCP client over WebSocket for test pages: matches responses to requests by id.

class McpClient {
  #pending = new Map();
  /** Ids of the responses in order of arrival. */
  receivedIds = [];

  constructor(address) {
    this.socket = new WebSocket(address, ["mcp"]);
    this.opened = new Promise((resolve) => {
      this.socket.addEventListener("open", () => resolve(true));
      this.socket.addEventListener("close", () => resolve(false));
    });
    this.closed = new Promise((resolve) => {
      this.socket.addEventListener("close", ({ code, reason, wasClean }) =>
        resolve({ code, reason, wasClean }),
      );
    });
    this.socket.addEventListener("message", ({ data }) => {
      const response = JSON.parse(data);
      this.receivedIds.push(response.id);
      this.#pending.get(response.id)?.(response);
    });
  }

  request(id, method, params) {
    return new Promise((resolve) => {
      this.#pending.set(id, resolve);
      this.notify(method, params, { id });
    });
  }

  notify(method, params, more = {}) {
    this.socket.send(JSON.stringify({ jsonrpc: "2.0", ...more, method, params }));
  }

  call(id, name, args) {
    return this.request(id, "tools/call", { name, arguments: args });
  }

  close() {
    this.socket.close(1000);
    return this.closed;
  }
}
