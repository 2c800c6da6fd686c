// Streamable HTTP: one POST per request; the response is JSON or an event stream.

let lastId = 0;
/** What the user entered as a key; kept in this page only. */
let key = "";

/** Failure of a request: an error of the server, of a proxy, or of the network. */
class RequestError extends Error {
  constructor(message, facts = {}) {
    super(message);
    Object.assign(this, facts);
  }
}

/** Encodes a value for a header; text that is not printable ASCII as base64. */
function headerValue(value) {
  const said = String(value);
  const isPlain = /^([!-~]([\t -~]*[!-~])?)?$/.test(said) && !/^=\?base64\?.*\?=$/.test(said);
  if (isPlain) return said;
  const bytes = Array.from(new TextEncoder().encode(said), (byte) => String.fromCharCode(byte));
  return `=?base64?${btoa(bytes.join(""))}?=`;
}

/** Returns the `Mcp-Param-*` headers that the schema requires. */
function parameterHeaders(schema, values) {
  return Object.entries(schema?.properties ?? {}).flatMap(([name, property]) => {
    if (values == null || !Object.hasOwn(values, name)) return [];
    const [value, header] = [values[name], property["x-mcp-header"]];
    // Objects and `null` have no header of their own.
    if (typeof value === "object") return parameterHeaders(property, value);
    return header ? [[`Mcp-Param-${header}`, headerValue(value)]] : [];
  });
}

/** Returns the headers of a request; `name` is the value of `Mcp-Name`, if any. */
function requestHeaders(method, name, more) {
  return Object.fromEntries([
    ["Content-Type", "application/json"],
    ["Accept", "application/json, text/event-stream"],
    ["MCP-Protocol-Version", REVISION],
    ["Mcp-Method", method],
    ...(name === undefined ? [] : [["Mcp-Name", headerValue(name)]]),
    ...more,
  ]);
}

/**
 * Sends one request and returns its result. `onNotification` gets each notification before it;
 * messages sent and received are appended to `wire`.
 */
async function ask(method, params = {}, options = {}) {
  const { name, headers = [], signal, onNotification, wire = [] } = options;
  const id = ++lastId;
  const meta = {
    [`${KEY}protocolVersion`]: REVISION,
    [`${KEY}clientInfo`]: { name: "corelane-page", version: "1" },
    [`${KEY}clientCapabilities`]: { elicitation: { form: {}, url: {} } },
  };
  if (onNotification) Object.assign(meta, { progressToken: id, [`${KEY}logLevel`]: "debug" });
  const request = { jsonrpc: "2.0", id, method, params: { ...params, _meta: meta } };
  const sent = requestHeaders(method, name, headers);
  wire.push({ sent, request });
  // The key is not among the messages that are shown.
  const secret = key === "" ? {} : { Authorization: `Bearer ${key}` };
  const headersSent = { ...sent, ...secret };
  const said = { method: "POST", headers: headersSent, body: JSON.stringify(request), signal };
  const response = await fetch(ENDPOINT, said).catch(lost("The server cannot be reached."));
  let answer;
  for await (const message of messages(response)) {
    wire.push({ received: message });
    if (message?.method === undefined) answer = message;
    else onNotification?.(message);
  }
  const { status } = response;
  if (status === 401) askForKey();
  if (answer?.error) throw new RequestError(answer.error.message, { ...answer.error, status });
  if (!answer?.result) throw new RequestError("The response is not an MCP response.", { status });
  return answer.result;
}

/** Shows the field for a key, which the server has asked for. */
function askForKey() {
  const form = find("key");
  find("key-about").textContent =
    key === "" ? "This server needs a key or token." : "The server does not accept this key.";
  form.hidden = false;
  form.onsubmit = (event) => {
    event.preventDefault();
    key = find("key-field").value.trim();
    find("key-field").value = "";
    form.hidden = true;
    load();
  };
}

/** Converts network errors to `message`; an abort stays an abort. */
function lost(message) {
  return (problem) => {
    throw problem.name === "AbortError" ? problem : new RequestError(message);
  };
}

/** Yields the messages of a response; text that is not JSON is skipped. */
async function* messages(response) {
  const isStream = response.headers.get("Content-Type")?.startsWith("text/event-stream");
  const texts = isStream ? events(response.body) : [response.text().catch(lost(CUT))];
  for await (const text of texts) {
    try {
      yield JSON.parse(text);
    } catch (problem) {
      if (!(problem instanceof SyntaxError)) throw problem;
    }
  }
}

const CUT = "The connection was closed before the response was complete.";

/** Yields the data of each event of an event stream. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  for (;;) {
    const { done, value } = await reader.read().catch(lost(CUT));
    if (done) return;
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data:")) data.push(line.slice(5));
      if (line !== "" || data.length === 0) continue;
      yield data.join("\n");
      data = [];
    }
  }
}
