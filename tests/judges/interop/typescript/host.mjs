// The host of a client: handlers for elicitation, sampling and roots.
//
// Each handler sends progress before its result if the request has a progress token, which only
// requests of the legacy era have.

import { ANSWERS } from "./common.mjs";

/** Fills in a form: the default of each field, else the fixed answer for its name. */
function content(schema) {
  const fill = ([name, field]) => [name, field.default ?? ANSWERS.fields[name]];
  return Object.fromEntries(Object.entries(schema.properties).map(fill));
}

/** Responds to server requests and records them. */
export class Host {
  requests = [];
  progressSent = 0;

  /** Returns an unconnected client that declares every capability of this host. */
  client(server) {
    const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} };
    const client = server.client({ capabilities });
    const handlers = {
      "sampling/createMessage": () => this.#sample(),
      "elicitation/create": (params) => this.#elicit(params),
      "roots/list": () => ({ roots: [{ uri: ANSWERS.root, name: "project" }] }),
    };
    for (const [method, handle] of Object.entries(handlers)) {
      client.setRequestHandler(method, async ({ params }, context) => {
        this.requests.push({ method, params });
        await this.#sendProgress(context.mcpReq);
        return handle(params);
      });
    }
    return client;
  }

  async #sendProgress({ _meta, notify }) {
    const progressToken = _meta?.progressToken;
    if (progressToken === undefined) {
      return;
    }
    for (const progress of [1, 2]) {
      const params = { progressToken, progress, total: 2, message: "thinking" };
      await notify({ method: "notifications/progress", params });
      this.progressSent += 1;
    }
  }

  #sample() {
    const content = { type: "text", text: ANSWERS.sampled };
    return { role: "assistant", content, model: "interop" };
  }

  #elicit({ mode, message, requestedSchema }) {
    if (message === ANSWERS.declined) {
      return { action: "decline" };
    }
    if (message === ANSWERS.cancelled) {
      return { action: "cancel" };
    }
    if (mode === "url") {
      return { action: "accept" };
    }
    return { action: "accept", content: content(requestedSchema) };
  }
}
