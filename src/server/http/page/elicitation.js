// Input requests of a tool during a call.

/** Creates the form of one input request, and a function that returns its response. */
function question({ method, params = {} }) {
  if (method !== "elicitation/create") {
    throw new RequestError(`The tool requests ${method}, which this page does not support.`);
  }
  const said = text("legend", params.message);
  if (params.mode === "url") {
    // The link is not opened automatically: the user sees the whole address first.
    const node = make("fieldset", {}, said, make("p", {}, link(params.url)));
    return { node, accept: () => ({ action: "accept" }) };
  }
  const { nodes, values } = fields(params.requestedSchema ?? {});
  const node = make("fieldset", {}, said, ...nodes);
  return { node, accept: () => ({ action: "accept", content: values() }) };
}

/** Shows all input requests as one form in `place`; resolves with the responses. */
function answers(requests, place, signal) {
  const inputs = Object.entries(requests).map(([key, request]) => [key, question(request)]);
  return new Promise((resolve, reject) => {
    const finish = (answer) => {
      place.focus();
      place.replaceChildren();
      resolve(Object.fromEntries(inputs.map(([key, question]) => [key, answer(question)])));
    };
    const refusal = (textContent, action) =>
      make("button", { type: "button", textContent, onclick: () => finish(() => ({ action })) });
    const hasForms = Object.values(requests).some(({ params }) => params?.mode !== "url");
    const buttons = make(
      "div",
      { className: "row" },
      make("button", { className: "main", textContent: hasForms ? "Submit" : "Continue" }),
      refusal("Decline", "decline"),
      refusal("Dismiss", "cancel"),
    );
    const questions = inputs.map(([, { node }]) => node);
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
