// The user and the model behind a client: handlers that answer what a server asks.

import { ANSWERS } from "./told.mjs";

/** A form filled in: what it suggests itself, else what the user always says. */
function content(schema) {
  const answer = ([name, field]) => [name, field.default ?? ANSWERS.fields[name]];
  return Object.fromEntries(Object.entries(schema.properties).map(answer));
}

/** Answers, and keeps what was asked. */
export class Host {
  asked = [];

  /** A client that is not connected yet and declares all that this host can answer. */
  client(server) {
    const capabilities = { sampling: {}, elicitation: { form: {} }, roots: {} };
    const client = server.client({ capabilities });
    const answers = {
      "sampling/createMessage": () => this.#sample(),
      "elicitation/create": (params) => this.#elicit(params),
      "roots/list": () => ({ roots: [{ uri: ANSWERS.root, name: "project" }] }),
    };
    for (const [method, answer] of Object.entries(answers)) {
      client.setRequestHandler(method, ({ params }) => {
        this.asked.push({ method, params });
        return answer(params);
      });
    }
    return client;
  }

  #sample() {
    const content = { type: "text", text: ANSWERS.sampled };
    return { role: "assistant", content, model: "interop" };
  }

  #elicit({ message, requestedSchema }) {
    if (message === ANSWERS.declined) {
      return { action: "decline" };
    }
    if (message === ANSWERS.cancelled) {
      return { action: "cancel" };
    }
    return { action: "accept", content: content(requestedSchema) };
  }
}
