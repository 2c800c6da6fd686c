// The servers behind this one, for operators: what they do, and buttons that change them.

/** What the user entered as the token of operators; kept in this page only. */
let adminToken = "";
/** The lines of the list by the names of the upstreams. */
const upstreamLines = new Map();

const CHANGES = [
  ["Restart", "restart"],
  ["Disable", "disable"],
  ["Enable", "enable"],
  ["Approve changed tools", "approve"],
];

/** Whether an upstream has a use for a change. */
function isChangeOf({ state, hidden_tools: hidden }, change) {
  if (change === "approve") return (hidden ?? []).length > 0;
  return (change === "enable") === (state === "disabled");
}

/** Sends a request of operators; asks for the token if it is not accepted. */
async function askOperators(path, method = "GET") {
  const headers = adminToken === "" ? {} : { Authorization: `Bearer ${adminToken}` };
  const response = await fetch(path, { method, headers });
  if (response.status === 401) {
    askForAdminToken(adminToken === "" ? "" : "The server does not accept this token.");
    adminToken = "";
  }
  return response;
}

/** Shows the field for the token of operators. */
function askForAdminToken(about) {
  const form = find("admin");
  find("admin-about").textContent = about || "Upstreams need the token of operators (admin.token).";
  form.hidden = false;
  form.onsubmit = (event) => {
    event.preventDefault();
    adminToken = find("admin-field").value.trim();
    find("admin-field").value = "";
    form.hidden = true;
    loadUpstreams();
  };
}

/** Shows the upstreams, if this server has some; `status` is that of the server. */
async function showUpstreams({ upstreams }) {
  const section = find("upstreams-section");
  section.hidden = upstreams === undefined;
  if (upstreams === undefined) return;
  if (!find("upstreams-title")) {
    section.prepend(make("h2", { id: "upstreams-title", textContent: "Upstreams" }));
  }
  if (upstreams.token && adminToken === "") {
    if (find("admin").hidden) askForAdminToken("");
  } else {
    await loadUpstreams();
  }
}

/** Reads and shows the upstreams, and the lists anew if what they offer has changed. */
async function loadUpstreams() {
  const response = await askOperators("upstreams");
  if (!response.ok) return;
  const { upstreams } = await response.json();
  find("upstreams-title").textContent = `Upstreams (${upstreams.length})`;
  for (const upstream of upstreams) {
    if (!upstreamLines.has(upstream.name)) upstreamLines.set(upstream.name, makeUpstream(upstream));
    upstreamLines.get(upstream.name)(upstream);
  }
  find("upstreams").hidden = false;
  const offers = JSON.stringify(upstreams.map(({ name, offered }) => [name, offered]));
  const isChanged = loadUpstreams.offers !== undefined && loadUpstreams.offers !== offers;
  loadUpstreams.offers = offers;
  if (isChanged) load();
}

/** Adds the line of an upstream; returns the function that shows its status there. */
function makeUpstream({ name }) {
  const [state, about] = [text("small", "", "origin"), text("p", "", "soft")];
  const summary = make("summary", {}, text("h3", name), state, about);
  const facts = make("dl", { className: "facts" });
  const stderr = make("pre", { className: "block card", tabIndex: 0, role: "region" });
  stderr.setAttribute("aria-label", `Standard error of ${name}`);
  const news = make("p", { className: "soft", role: "status" });
  const buttons = CHANGES.map(([label, change]) => {
    const button = make("button", { type: "button", textContent: label });
    button.setAttribute("aria-label", `${label} ${name}`);
    button.onclick = async () => {
      const response = await askOperators(`upstreams/${name}/${change}`, "POST");
      news.textContent = response.ok ? "" : await response.text();
      await loadUpstreams();
    };
    return button;
  });
  const row = make("div", { className: "row" }, ...buttons);
  const line = make("details", { id: `upstream-${name}` }, summary);
  line.append(make("div", { className: "tool" }, facts, stderr, row, news));
  find("upstreams").append(line);
  return (upstream) => {
    setText(state, upstream.state);
    state.className = upstream.state === "failed" ? "origin alarm" : "origin";
    setText(about, upstream.error ?? shortFacts(upstream));
    const rows = upstreamFacts(upstream);
    // Unchanged elements stay, and so does a selection in them.
    if (facts.textContent !== rows.flat().join("")) {
      facts.replaceChildren(...rows.flatMap(([key, said]) => [text("dt", key), text("dd", said)]));
    }
    setText(stderr, upstream.stderr.join("\n"));
    stderr.hidden = upstream.stderr.length === 0;
    buttons.forEach((button, at) => (button.hidden = !isChangeOf(upstream, CHANGES[at][1])));
  };
}

function setText(node, said) {
  if (node.textContent !== said) node.textContent = said;
}

const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function shortFacts({ offered, calls, children }) {
  const tools = offered && counted(offered.tools, "tool");
  const open = `${children.open} connected`;
  return [tools, open, `${calls.in_flight} in flight`].filter(Boolean).join(" · ");
}

/** Returns the names and texts of what is known of an upstream. */
function upstreamFacts(upstream) {
  const { target, share, revision, server, offered, children, calls, retry_in_ms } = upstream;
  const { total, tool_error, error, timeout, failed, cancelled, p50_ms, p99_ms } = calls;
  const errors = [
    tool_error > 0 && counted(tool_error, "tool error"),
    error > 0 && counted(error, "error"),
    timeout > 0 && counted(timeout, "timeout"),
    failed > 0 && `${failed} failed`,
    cancelled > 0 && `${cancelled} cancelled`,
  ].filter(Boolean);
  const offers = offered && [
    counted(offered.tools, "tool"),
    counted(offered.resources, "resource"),
    counted(offered.prompts, "prompt"),
  ];
  return [
    ["Target", target],
    ["Server", server && `${server.name} ${server.version}`],
    ["Revision", revision],
    ["Offers", offers?.join(", ")],
    ["Changed, not offered", upstream.hidden_tools?.join(", ")],
    ["Shared by", share],
    ["Connected", `${children.open} now, ${children.started} started, ${children.restarts} again`],
    ["Calls", `${total}, ${calls.in_flight} in flight`],
    ["Errors", errors.join(", ") || "none"],
    ["Time", p50_ms !== null && `p50 ${duration(p50_ms)}, p99 ${duration(p99_ms)}`],
    ["Tried again", retry_in_ms !== null && `in ${duration(retry_in_ms)}`],
  ].filter(([, said]) => said);
}
