// The user and the model behind a client: handlers that answer what a server asks.
//
// Each tells how far it is before it answers, where the question came with a token for that: only
// the requests of the legacy era do.

import { ANSWERS } from "./told.mjs";

/** A form filled in: what it suggests itself, else what the user always says. */
function content(schema) {
  const answer = ([name, field]) => [name, field.default ?? ANSWERS.fields[name]];
  return Object.fromEntries(Object.entries(schema.properties).map(answer));
}

/** Answers, and keeps what was asked. */
export class Host {
  asked = [];
  reports = 0;

  /** A client that is not connected yet and declares all that this host can answer. */
  client(server) {
    const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} };
    const client = server.client({ capabilities });
    const answers = {
      "sampling/createMessage": () => this.#sample(),
      "elicitation/create": (params) => this.#elicit(params),
      "roots/list": () => ({ roots: [{ uri: ANSWERS.root, name: "project" }] }),
    };
    for (const [method, answer] of Object.entries(answers)) {
      client.setRequestHandler(method, async ({ params }, context) => {
        this.asked.push({ method, params });
        await this.#tellProgress(context.mcpReq);
        return answer(params);
      });
    }
    return client;
  }

  async #tellProgress({ _meta, notify }) {
    const progressToken = _meta?.progressToken;
    if (progressToken === undefined) {
      return;
    }
    for (const progress of [1, 2]) {
      const params = { progressToken, progress, total: 2, message: "thinking" };
      await notify({ method: "notifications/progress", params });
      this.reports += 1;
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
