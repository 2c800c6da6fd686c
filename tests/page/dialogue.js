// What a page needs to speak MCP over a WebSocket: requests, and their answers by id.

class Dialogue {
  #waiting = new Map();
  /** The ids of the answers, in the order of their arrival. */
  answered = [];

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
      const answer = JSON.parse(data);
      this.answered.push(answer.id);
      this.#waiting.get(answer.id)?.(answer);
    });
  }

  ask(id, method, params) {
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.tell(method, params, { id });
    });
  }

  tell(method, params, more = {}) {
    this.socket.send(JSON.stringify({ jsonrpc: "2.0", ...more, method, params }));
  }

  call(id, name, given) {
    return this.ask(id, "tools/call", { name, arguments: given });
  }

  close() {
    this.socket.close(1000);
    return this.closed;
  }
}
