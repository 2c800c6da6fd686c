// What the server is and offers, and how busy it is.

const STATUS_MS = 2000;
/** From so many tools on there is a field to look for one. */
const FILTER_TOOLS_MIN = 8;

/** Words with commas between them, which break there only. */
function unbroken(words) {
  const last = words.length - 1;
  return make("dd", {}, ...words.flatMap((word, at) => [text("span", word), at < last && ", "]));
}

function showServer({ capabilities = {}, instructions, supportedVersions = [], _meta }) {
  const { name, title, version, description } = _meta?.[`${KEY}serverInfo`] ?? {};
  const called = title ?? name ?? "MCP server";
  find("name").textContent = called;
  document.title = `${called} · MCP`;
  for (const [id, said] of Object.entries({ about: description, instructions })) {
    find(id).textContent = said ?? "";
    find(id).hidden = !said;
  }
  const rows = [
    ["Version", version ? [version] : []],
    ["Speaks", supportedVersions],
    ["Offers", Object.keys(capabilities)],
  ].filter(([, words]) => words.length > 0);
  const facts = rows.flatMap(([name, words]) => [text("dt", name), unbroken(words)]);
  find("facts").replaceChildren(...facts);
  showSnippets((name ?? "server").replace(/[^\w-]+/g, "-"));
}

function showTools(tools) {
  const lines = tools.map(toolLine);
  find("tools").replaceChildren(...lines);
  find("tools").hidden = tools.length === 0;
  find("none").textContent = tools.length > 0 ? "" : "This server offers no tools.";
  find("tools-title").textContent = tools.length > 0 ? `Tools (${tools.length})` : "Tools";
  const filter = find("filter");
  filter.hidden = tools.length < FILTER_TOOLS_MIN;
  filter.oninput = () => {
    const wanted = filter.value.toLowerCase();
    const fits = ({ name, description = "" }) =>
      `${name} ${description}`.toLowerCase().includes(wanted);
    tools.forEach((tool, at) => (lines[at].hidden = !fits(tool)));
    find("tools").hidden = !tools.some(fits);
    find("none").textContent = tools.some(fits) ? "" : "No tool is called so.";
  };
  const linked = lines.find(({ id }) => `#${encodeURIComponent(id)}` === location.hash);
  if (linked) linked.open = true;
}

async function load() {
  try {
    showServer(await ask("server/discover"));
    const tools = [];
    let params = {};
    do {
      const page = await ask("tools/list", params);
      tools.push(...page.tools);
      params = { cursor: page.nextCursor };
    } while (params.cursor !== undefined);
    showTools(tools);
  } catch (problem) {
    find("none").replaceChildren(failure(problem));
  }
}

function showCounts(status) {
  const names = ["connections", "sessions", "streams", "shards"].filter((name) => name in status);
  const counts = names.map((name) => make("div", {}, text("dt", name), text("dd", status[name])));
  const place = find("live");
  // What did not change stays, and with it what somebody may have selected.
  if (place.textContent !== counts.map((count) => count.textContent).join("")) {
    place.replaceChildren(...counts);
  }
  place.hidden = names.length === 0;
}

/** Shows where the server speaks WebSocket, if it does: beside its other endpoint. */
function showWebSocket({ websocket }) {
  const place = find("websocket");
  place.hidden = websocket === undefined;
  if (websocket === undefined) return;
  const url = new URL(`.${websocket}`, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  place.querySelector("code").textContent = url.href;
}

/** Asks how busy the server is, again and again as long as somebody sees the page. */
async function watch() {
  clearTimeout(watch.next);
  if (document.hidden) return;
  const news = find("news");
  try {
    const response = await fetch("status");
    if (response.ok) {
      const status = await response.json();
      showCounts(status);
      showWebSocket(status);
    }
    // A server that came back may have come back as another.
    if (news.textContent !== "") load();
    news.textContent = "";
  } catch {
    find("live").hidden = true;
    news.textContent = "The server does not answer. Trying again …";
  }
  clearTimeout(watch.next);
  watch.next = setTimeout(watch, STATUS_MS);
}

find("endpoint").textContent = ENDPOINT;
find("endpoint").after(copier(() => ENDPOINT));
find("where").after(copier(() => find("snippet").textContent));
document.addEventListener("visibilitychange", watch);
showSnippets("server");
load();
watch();
