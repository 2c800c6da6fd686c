// What a tool asks for in the middle of a call.

/** One question as something to fill in, and how to read its answer. */
function question({ method, params = {} }) {
  if (method !== "elicitation/create") {
    throw new Refusal(`The tool asks for ${method}, which a page cannot answer.`);
  }
  const said = text("legend", params.message);
  if (params.mode === "url") {
    // Nothing opens by itself: whoever answers has seen the whole address.
    const node = make("fieldset", {}, said, make("p", {}, link(params.url)));
    return { node, accept: () => ({ action: "accept" }) };
  }
  const { nodes, values } = fields(params.requestedSchema ?? {});
  const node = make("fieldset", {}, said, ...nodes);
  return { node, accept: () => ({ action: "accept", content: values() }) };
}

/** Shows all questions as one form in `place` and gives the answers. */
function answers(requests, place, signal) {
  const asked = Object.entries(requests).map(([key, request]) => [key, question(request)]);
  return new Promise((resolve, reject) => {
    const finish = (answer) => {
      place.focus();
      place.replaceChildren();
      resolve(Object.fromEntries(asked.map(([key, question]) => [key, answer(question)])));
    };
    const refusal = (textContent, action) =>
      make("button", { type: "button", textContent, onclick: () => finish(() => ({ action })) });
    const hasForms = Object.values(requests).some(({ params }) => params?.mode !== "url");
    const buttons = make(
      "div",
      { className: "row" },
      make("button", { className: "main", textContent: hasForms ? "Answer" : "Continue" }),
      refusal("Decline", "decline"),
      refusal("Dismiss", "cancel"),
    );
    const questions = asked.map(([, { node }]) => node);
    const form = sendable(make("form", { className: "ask card" }, ...questions, buttons));
    form.onsubmit = (event) => {
      event.preventDefault();
      finish(({ accept }) => accept());
    };
    signal.addEventListener("abort", () => reject(signal.reason));
    place.replaceChildren(form);
    form.querySelector("a, input, select, textarea, button").focus();
  });
}
