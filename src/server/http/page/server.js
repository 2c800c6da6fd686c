// Name, capabilities and status of the server.

const STATUS_MS = 2000;

/** Joins words with commas, with line breaks only there. */
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
    ["Revisions", supportedVersions],
    ["Capabilities", Object.keys(capabilities)],
  ].filter(([, words]) => words.length > 0);
  const facts = rows.flatMap(([name, words]) => [text("dt", name), unbroken(words)]);
  find("facts").replaceChildren(...facts);
  showSnippets((name ?? "server").replace(/[^\w-]+/g, "-"));
}

async function load() {
  try {
    const server = await ask("server/discover");
    showServer(server);
    await Promise.all(LISTS.map((list) => loadList(list, server.capabilities ?? {})));
  } catch (problem) {
    find("tools-section").querySelector(".none").replaceChildren(failure(problem));
  }
}

function showCounts(status) {
  const names = ["connections", "sessions", "streams", "shards"].filter((name) => name in status);
  const counts = names.map((name) => make("div", {}, text("dt", name), text("dd", status[name])));
  const place = find("live");
  // Unchanged elements stay, and so does a selection in them.
  if (place.textContent !== counts.map((count) => count.textContent).join("")) {
    place.replaceChildren(...counts);
  }
  place.hidden = names.length === 0;
}

/** Shows the WebSocket endpoint, if it is enabled. */
function showWebSocket({ websocket }) {
  const place = find("websocket");
  place.hidden = websocket === undefined;
  if (websocket === undefined) return;
  const url = new URL(`.${websocket}`, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  place.querySelector("code").textContent = url.href;
}

/** Polls the server's status while the page is visible. */
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
      await showUpstreams(status);
    }
    // After a restart the server may offer something else.
    if (news.textContent !== "") load();
    news.textContent = "";
  } catch {
    find("live").hidden = true;
    news.textContent = "The server does not respond. Retrying …";
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
