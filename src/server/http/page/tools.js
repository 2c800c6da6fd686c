// Tool calls: a list of tools, each with a form and the result.

/** Limit of rounds of input requests in one call. */
const ROUNDS_MAX = 32;
/** Delay until progress is shown, so that short calls do not flicker. */
const PROGRESS_DELAY_MS = 150;

/** Creates the elements for progress, log messages, input requests and result of a call. */
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

/** Returns a handler that shows the notifications of a call. */
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
 * Makes the request of a target, including all rounds of input requests. `trip` records the
 * messages and the time that the server took, without the time of the user's input.
 */
async function call(target, values, outcome, signal, trip) {
  const { headline, waiting, place } = outcome;
  const { name, params, headers = [] } = target.request(values);
  const options = { name, headers, signal, wire: trip.wire, onNotification: listen(outcome) };
  let more = {};
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const timer = setTimeout(() => {
      headline.className = "soft";
      headline.textContent = "Waiting …";
      waiting.hidden = false;
      place.replaceChildren();
    }, PROGRESS_DELAY_MS);
    const begun = performance.now();
    const result = await ask(target.method, { ...params, ...more }, options).finally(() => {
      clearTimeout(timer);
      waiting.hidden = true;
      trip.ms += performance.now() - begun;
    });
    if (result.resultType !== "input_required") return result;
    more = "requestState" in result ? { requestState: result.requestState } : {};
    if (!result.inputRequests) continue;
    headline.className = "soft";
    headline.textContent = "The server requests input.";
    more.inputResponses = await answers(result.inputRequests, place, signal);
  }
  throw new RequestError(`Too many rounds of input requests (limit ${ROUNDS_MAX}).`);
}

/** Makes a request and shows the result, unless another one was started meanwhile. */
async function run(target, values, outcome, controller, isCurrent) {
  const { headline, log, bar, step, place } = outcome;
  const trip = { wire: [], ms: 0 };
  bar.removeAttribute("value");
  step.textContent = "";
  log.replaceChildren();
  log.hidden = true;
  let said, blocks, isBad;
  try {
    const result = await call(target, values, outcome, controller.signal, trip);
    isBad = result.isError === true;
    said = isBad ? "The tool failed" : "Result";
    blocks = target.show(result);
  } catch (problem) {
    isBad = problem.name !== "AbortError";
    said = isBad ? "Error" : "Stopped";
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

/** Creates the list of messages sent and received. */
function exchange(wire) {
  const show = ({ sent, request, received }) => {
    if (received) return block(text("small", "received"), text("pre", pretty(received)));
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

/** Creates the editor of a tool's arguments, as fields or as JSON. */
function makeEditor(schema) {
  const { properties = {}, additionalProperties } = plain(schema, schema);
  const isEmpty = Object.keys(properties).length === 0;
  const slot = make("fieldset");
  const swap = make("button", { type: "button", className: "quiet" });
  const editor = { slot, swap, values: undefined, fill: undefined };
  const show = (isJson, initial) => {
    const parts = isJson ? jsonFields(initial) : fields(schema, initial);
    editor.values = parts.values;
    editor.fill = (values) => show(isJson, values);
    slot.hidden = parts.nodes.length === 0;
    slot.replaceChildren(...parts.nodes);
    swap.textContent = isJson ? "Edit as form" : "Edit as JSON";
    swap.onclick = () => {
      // Invalid JSON cannot be shown as fields.
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

/** Creates one JSON field for all arguments. */
function jsonFields(initial) {
  const { node, value } = jsonControl({ type: "object" }, initial, false);
  node.setAttribute("aria-label", "Arguments as JSON");
  return { nodes: [node], values: () => value() ?? {} };
}

/** Number of earlier requests of an entry that are shown. */
const HISTORY_MAX = 10;

/** Creates the list of earlier requests, the newest first; `reuse` gets the values of one. */
function makeHistory(reuse) {
  const list = make("div", { className: "block card" });
  const title = text("summary", "");
  const node = make("details", { className: "wire history", hidden: true }, title, list);
  const add = (values, headline) => {
    const again = make("button", { type: "button", className: "quiet", textContent: "Use again" });
    again.onclick = () => reuse(values);
    const at = new Date().toLocaleTimeString();
    const said = text("p", `${at} · ${headline}`, "soft");
    const top = make("div", { className: "row spread" }, said, again);
    list.prepend(make("div", {}, top, text("pre", JSON.stringify(values))));
    if (list.children.length > HISTORY_MAX) list.lastElementChild.remove();
    title.textContent = `Earlier requests (${list.children.length})`;
    node.hidden = false;
  };
  return { node, add };
}

/**
 * Creates the form and the result of a target: `schema` describes its values, `label` is that of
 * its button, `request` returns what is sent for values, and `show` the blocks of a result.
 */
function makeBench(target) {
  const outcome = makeOutcome();
  const editor = makeEditor(target.schema);
  const submit = make("button", { className: "main", textContent: target.label });
  const stop = make("button", { type: "button", textContent: "Stop", hidden: true });
  const buttons = make("div", { className: "row" }, submit, stop, editor.swap);
  const form = sendable(make("form", {}, editor.slot, buttons));
  const earlier = makeHistory((values) => editor.fill(values));
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
    const timer = setTimeout(() => (stop.hidden = false), PROGRESS_DELAY_MS);
    const values = editor.values();
    await run(target, values, outcome, controller, isCurrent);
    clearTimeout(timer);
    if (!isCurrent()) return;
    earlier.add(values, outcome.headline.textContent);
    // The stop button is hidden: move its focus.
    if (document.activeElement === stop) submit.focus();
    stop.hidden = true;
    form.setAttribute("aria-busy", false);
  };
  return make("div", { className: "tool" }, target.notes, form, outcome.node, earlier.node);
}

/** Shows the annotations of a tool. */
function traits({ readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = {}) {
  const said = [
    readOnlyHint && "only reads",
    destructiveHint && !readOnlyHint && "may destroy",
    idempotentHint && "safe to repeat",
    openWorldHint && "reaches outside",
  ].filter(Boolean);
  return said.length > 0 && text("p", said.join(" · "), "soft");
}

/** Returns the target that calls a tool. */
function toolTarget({ name, inputSchema = {}, annotations }) {
  return {
    schema: inputSchema,
    label: "Call",
    notes: traits(annotations),
    method: "tools/call",
    request: (values) => ({
      name,
      params: { name, arguments: values },
      headers: parameterHeaders(inputSchema, values),
    }),
    show: contents,
  };
}
