// The protocol: one POST a request, answered by one JSON text or by a stream of events.

let lastId = 0;

/** What ended a request without a result: the server, something before it, or the network. */
class Refusal extends Error {
  constructor(message, facts = {}) {
    super(message);
    Object.assign(this, facts);
  }
}

/** A value as a header carries it: what is not plain ASCII travels as base64. */
function headerValue(value) {
  const said = String(value);
  const isPlain = /^([!-~]([\t -~]*[!-~])?)?$/.test(said) && !/^=\?base64\?.*\?=$/.test(said);
  if (isPlain) return said;
  const bytes = Array.from(new TextEncoder().encode(said), (byte) => String.fromCharCode(byte));
  return `=?base64?${btoa(bytes.join(""))}?=`;
}

/** The headers that repeat arguments, where the schema asks for them. */
function parameterHeaders(schema, values) {
  return Object.entries(schema?.properties ?? {}).flatMap(([name, property]) => {
    if (values == null || !Object.hasOwn(values, name)) return [];
    const [value, header] = [values[name], property["x-mcp-header"]];
    // Objects, and `null` among them, are what no header can say.
    if (typeof value === "object") return parameterHeaders(property, value);
    return header ? [[`Mcp-Param-${header}`, headerValue(value)]] : [];
  });
}

/** The headers of a request; `name` is what it is about, where the revision asks for that. */
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
 * Sends one request and gives its result. `hear` is told each notification before it; what was
 * sent and received is added to `wire`.
 */
async function ask(method, params = {}, { name, headers = [], signal, hear, wire = [] } = {}) {
  const id = ++lastId;
  const meta = {
    [`${KEY}protocolVersion`]: REVISION,
    [`${KEY}clientInfo`]: { name: "corelane-page", version: "1" },
    [`${KEY}clientCapabilities`]: { elicitation: { form: {}, url: {} } },
  };
  if (hear) Object.assign(meta, { progressToken: id, [`${KEY}logLevel`]: "debug" });
  const request = { jsonrpc: "2.0", id, method, params: { ...params, _meta: meta } };
  const sent = requestHeaders(method, name, headers);
  wire.push({ sent, request });
  const said = { method: "POST", headers: sent, body: JSON.stringify(request), signal };
  const response = await fetch(ENDPOINT, said).catch(lost("The server cannot be reached."));
  let answer;
  for await (const message of messages(response)) {
    wire.push({ heard: message });
    if (message?.method === undefined) answer = message;
    else hear?.(message);
  }
  const { status } = response;
  if (answer?.error) throw new Refusal(answer.error.message, { ...answer.error, status });
  if (!answer?.result) throw new Refusal("This is no answer of an MCP server.", { status });
  return answer.result;
}

/** Has a failure of the network say so in words; a stop stays a stop. */
function lost(message) {
  return (problem) => {
    throw problem.name === "AbortError" ? problem : new Refusal(message);
  };
}

/** What a response says, message by message; what is not JSON is passed over. */
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

const CUT = "The connection was cut before the answer was whole.";

/** The data of an event stream, event by event. */
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
