// Calling tools: a line for each in the list, below it the form and what came of it.

/** After that many rounds of questions a tool is left alone. */
const ROUNDS_MAX = 32;
/** A call that ends sooner shows its result only, and so does not flicker. */
const PATIENCE_MS = 150;

/** Where a call shows how far it is, what it says, what it asks and what came of it. */
function makeOutcome() {
  const headline = make("p", { className: "soft", role: "status" });
  const bar = make("progress", { "aria-label": "Progress" });
  const step = text("small", "");
  const waiting = make("div", { className: "waiting", hidden: true }, bar, step);
  const log = make("div", { className: "block card", hidden: true, role: "log" });
  const place = make("div", { className: "outcome", tabIndex: -1 });
  const node = make("div", { className: "outcome" }, headline, waiting, log, place);
  return { headline, bar, step, waiting, log, place, node };
}

/** Shows what a server says before the result. */
function listen({ bar, step, log }) {
  return ({ method, params }) => {
    if (method === "notifications/progress") {
      const { progress, total, message } = params;
      if (total) Object.assign(bar, { max: total, value: progress });
      step.textContent = message ?? (total ? `${progress} of ${total}` : String(progress));
    }
    if (method === "notifications/message") {
      const said = typeof params.data === "string" ? params.data : JSON.stringify(params.data);
      log.append(text("p", `${params.level}: ${said}`, "mono"));
      log.hidden = false;
    }
  };
}

/**
 * Calls a tool to its end, however often it asks for something meanwhile. `trip` takes what went
 * over the wire and how long the server took, without the time that its questions waited.
 */
async function call(tool, values, outcome, signal, trip) {
  const { headline, waiting, place } = outcome;
  const headers = parameterHeaders(tool.inputSchema, values);
  const { wire } = trip;
  const options = { name: tool.name, headers, signal, wire, hear: listen(outcome) };
  let more = {};
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const patience = setTimeout(() => {
      headline.className = "soft";
      headline.textContent = "Calling …";
      waiting.hidden = false;
      place.replaceChildren();
    }, PATIENCE_MS);
    const begun = performance.now();
    const params = { name: tool.name, arguments: values, ...more };
    const result = await ask("tools/call", params, options).finally(() => {
      clearTimeout(patience);
      waiting.hidden = true;
      trip.ms += performance.now() - begun;
    });
    if (result.resultType !== "input_required") return result;
    more = "requestState" in result ? { requestState: result.requestState } : {};
    if (!result.inputRequests) continue;
    headline.className = "soft";
    headline.textContent = "The tool asks for input.";
    more.inputResponses = await answers(result.inputRequests, place, signal);
  }
  throw new Refusal("The tool does not stop asking.");
}

/** Calls a tool and shows what came of it, unless another call took its place. */
async function run(tool, values, outcome, controller, isCurrent) {
  const { headline, log, bar, step, place } = outcome;
  const trip = { wire: [], ms: 0 };
  bar.removeAttribute("value");
  step.textContent = "";
  log.replaceChildren();
  log.hidden = true;
  let said, blocks, isBad;
  try {
    const result = await call(tool, values, outcome, controller.signal, trip);
    isBad = result.isError === true;
    said = isBad ? "The tool failed" : "Result";
    blocks = contents(result);
  } catch (problem) {
    isBad = problem.name !== "AbortError";
    said = isBad ? "Refused" : "Stopped";
    blocks = isBad ? [failure(problem)] : [];
  }
  if (!isCurrent()) return;
  headline.className = isBad ? "alarm" : "soft";
  headline.textContent = `${said} · ${duration(trip.ms)}`;
  place.replaceChildren(...blocks, exchange(trip.wire));
}

function duration(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
}

/** What went over the wire, for whoever wants to see it. */
function exchange(wire) {
  const show = ({ sent, request, heard }) => {
    if (heard) return block(text("small", "received"), text("pre", pretty(heard)));
    const copy = copier(() => curl(sent, request), "Copy as curl");
    const top = make("div", { className: "row spread" }, text("small", "sent"), copy);
    const head = Object.entries(sent).map(([name, value]) => `${name}: ${value}\n`);
    const line = `POST ${new URL(ENDPOINT).pathname}\n`;
    return block(top, text("pre", `${line}${head.join("")}\n${pretty(request)}`));
  };
  const node = make("details", { className: "wire" }, text("summary", "Messages"));
  node.ontoggle = () => {
    if (node.children.length === 1) node.append(...wire.map(show));
  };
  return node;
}

/** The arguments of a tool, as fields or as JSON, whichever one prefers. */
function makeEditor(schema) {
  const { properties = {}, additionalProperties } = plain(schema, schema);
  const isEmpty = Object.keys(properties).length === 0;
  const slot = make("fieldset");
  const swap = make("button", { type: "button", className: "quiet" });
  const editor = { slot, swap, values: undefined };
  const show = (isJson, initial) => {
    const parts = isJson ? jsonFields(initial) : fields(schema, initial);
    editor.values = parts.values;
    slot.hidden = parts.nodes.length === 0;
    slot.replaceChildren(...parts.nodes);
    swap.textContent = isJson ? "Edit as form" : "Edit as JSON";
    swap.onclick = () => {
      // What is not JSON yet cannot be carried over.
      const broken = [...slot.querySelectorAll("textarea")].find(
        (node) => node.validity.customError,
      );
      if (broken) broken.reportValidity();
      else show(!isJson, editor.values());
    };
  };
  const isOpen = isEmpty && additionalProperties !== false;
  show(isOpen, isOpen ? {} : undefined);
  swap.hidden = isEmpty;
  return editor;
}

/** All arguments in one field. */
function jsonFields(initial) {
  const { node, value } = jsonControl({ type: "object" }, initial, false);
  node.setAttribute("aria-label", "Arguments as JSON");
  return { nodes: [node], values: () => value() ?? {} };
}

/** Everything below a tool's line. */
function makeBench(tool) {
  const outcome = makeOutcome();
  const editor = makeEditor(tool.inputSchema ?? {});
  const submit = make("button", { className: "main", textContent: "Call" });
  const stop = make("button", { type: "button", textContent: "Stop", hidden: true });
  const buttons = make("div", { className: "row" }, submit, stop, editor.swap);
  const form = sendable(make("form", {}, editor.slot, buttons));
  let current;
  stop.onclick = () => {
    current.abort();
    submit.focus();
  };
  form.onsubmit = async (event) => {
    event.preventDefault();
    current?.abort();
    const controller = (current = new AbortController());
    const isCurrent = () => current === controller;
    form.setAttribute("aria-busy", true);
    const patience = setTimeout(() => (stop.hidden = false), PATIENCE_MS);
    await run(tool, editor.values(), outcome, controller, isCurrent);
    clearTimeout(patience);
    if (!isCurrent()) return;
    // Whoever was about to stop it goes on from where it began.
    if (document.activeElement === stop) submit.focus();
    stop.hidden = true;
    form.setAttribute("aria-busy", false);
  };
  return make("div", { className: "tool" }, traits(tool.annotations), form, outcome.node);
}

/** What a tool says about itself. */
function traits({ readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = {}) {
  const said = [
    readOnlyHint && "only reads",
    destructiveHint && !readOnlyHint && "may destroy",
    idempotentHint && "safe to repeat",
    openWorldHint && "reaches outside",
  ].filter(Boolean);
  return said.length > 0 && text("p", said.join(" · "), "soft");
}

/** The line of a tool in the list; its form is made when it is first opened. */
function toolLine(tool) {
  const about = tool.description && text("p", tool.description, "soft");
  const summary = make("summary", {}, text("h3", tool.name), about);
  const line = make("details", { id: `tool-${tool.name}` }, summary);
  line.ontoggle = () => {
    if (!line.open) return;
    if (line.children.length === 1) line.append(makeBench(tool));
    history.replaceState(null, "", `#${encodeURIComponent(line.id)}`);
  };
  return line;
}
