// The lists of the server: tools, prompts, and resources with their templates.

/** Number of entries from which a filter is shown. */
const FILTER_ENTRIES_MIN = 8;

/** Returns the target that gets a prompt. */
function promptTarget({ name, arguments: given = [] }) {
  const property = ({ name, title, description }) => [name, { type: "string", title, description }];
  const required = given.filter(({ required }) => required).map(({ name }) => name);
  return {
    schema: textSchema(given.map(property), required),
    label: "Get",
    method: "prompts/get",
    request: (values) => ({ name, params: { name, arguments: values } }),
    show: ({ description, messages = [] }) => [
      description && text("p", description, "soft"),
      ...messages.flatMap(({ role, content: part }) => [text("small", role), content(part)]),
    ].filter(Boolean),
  };
}

function textSchema(entries, required) {
  const properties = Object.fromEntries(entries);
  return { type: "object", properties, required, additionalProperties: false };
}

/** Returns the target that reads a resource, or one that matches a template. */
function resourceTarget({ uri, uriTemplate }) {
  const variables = [...(uriTemplate ?? "").matchAll(EXPRESSION)].flatMap(([, operator, names]) =>
    names.split(",").map((name) => ({ name, isRequired: operator !== "?" })),
  );
  const required = variables.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  return {
    schema: textSchema(variables.map(({ name }) => [name, { type: "string" }]), required),
    label: "Read",
    method: "resources/read",
    request: (values) => {
      const name = uri ?? expand(uriTemplate, values);
      return { name, params: { uri: name } };
    },
    show: ({ contents = [] }) => contents.map(resource),
  };
}

const EXPRESSION = /\{([+?]?)([^{}]*)\}/g;

/** Expands a URI template (RFC 6570): `{name}`, `{+name}` and `{?one,other}`. */
function expand(template, values) {
  return template.replace(EXPRESSION, (_, operator, names) => {
    const given = names.split(",").filter((name) => values[name] !== undefined);
    if (operator === "+") return given.map((name) => encodeURI(values[name])).join(",");
    const encoded = (name) => encodeURIComponent(values[name]);
    if (operator === "") return given.map(encoded).join(",");
    return given.map((name, at) => `${at === 0 ? "?" : "&"}${name}=${encoded(name)}`).join("");
  });
}

/**
 * Where an entry comes from, if the server states it: a command, an HTTP request, a statement, or
 * the name of an upstream.
 */
const origin = ({ _meta }) => _meta?.["corelane/source"];

/** The lists, each with what it has of an entry. */
const LISTS = [
  {
    id: "tools",
    noun: "tool",
    sources: [["tools/list", "tools"]],
    entry: (tool) => ({ name: tool.name, note: origin(tool), target: toolTarget }),
  },
  {
    id: "prompts",
    noun: "prompt",
    sources: [["prompts/list", "prompts"]],
    entry: (prompt) => ({ name: prompt.name, note: origin(prompt), target: promptTarget }),
  },
  {
    id: "resources",
    noun: "resource",
    sources: [
      ["resources/list", "resources"],
      ["resources/templates/list", "resourceTemplates"],
    ],
    entry: ({ uri, uriTemplate, mimeType, _meta }) => ({
      name: uri ?? uriTemplate,
      note: [uri === undefined ? "template" : mimeType, origin({ _meta })]
        .filter(Boolean)
        .join(" · "),
      target: resourceTarget,
    }),
  },
];

/** Reads all pages of a list. */
async function readAll(method, member) {
  const items = [];
  let params = {};
  do {
    const page = await ask(method, params);
    items.push(...page[member]);
    params = { cursor: page.nextCursor };
  } while (params.cursor !== undefined);
  return items;
}

/** Creates the line of an entry; its form is created when it is first opened. */
function entryLine(id, item, { name, note, target }) {
  const { title, description } = item;
  const heading = title !== name && title !== description && title;
  const said = [heading, description].filter(Boolean).join(": ");
  const about = said !== "" && text("p", said, "soft");
  const badge = note && text("small", note, "origin");
  const summary = make("summary", {}, text("h3", name), badge, about);
  const line = make("details", { id: `${id}-${name}` }, summary);
  line.ontoggle = () => {
    if (!line.open) return;
    if (line.children.length === 1) line.append(makeBench(target(item)));
    history.replaceState(null, "", `#${encodeURIComponent(line.id)}`);
  };
  return line;
}

/** Shows a list in its section. */
function showList({ id, noun, entry }, items) {
  const section = find(`${id}-section`);
  const [heading, filter, list, none] = ["h2", "input", ".list", ".none"].map((selector) =>
    section.querySelector(selector),
  );
  const lines = items.map((item) => entryLine(noun, item, entry(item)));
  const title = `${id[0].toUpperCase()}${id.slice(1)}`;
  list.replaceChildren(...lines);
  list.hidden = items.length === 0;
  none.textContent = items.length > 0 ? "" : `This server offers no ${id}.`;
  heading.textContent = items.length > 0 ? `${title} (${items.length})` : title;
  section.hidden = items.length === 0 && id !== "tools";
  filter.hidden = items.length < FILTER_ENTRIES_MIN;
  filter.oninput = () => {
    const wanted = filter.value.toLowerCase();
    const isShown = items.map((item) => {
      const words = [entry(item).name, item.title, item.description, entry(item).note];
      return words.join(" ").toLowerCase().includes(wanted);
    });
    lines.forEach((line, at) => (line.hidden = !isShown[at]));
    list.hidden = !isShown.includes(true);
    none.textContent = list.hidden ? `No ${noun} matches the filter.` : "";
  };
  const linked = lines.find(({ id }) => `#${encodeURIComponent(id)}` === location.hash);
  if (linked) linked.open = true;
}

/** Reads and shows a list that the server declares; a list that fails shows why. */
async function loadList(list, capabilities) {
  try {
    const items = [];
    for (const [method, member] of list.sources) {
      if (capabilities[list.id]) items.push(...(await readAll(method, member)));
    }
    showList(list, items);
  } catch (problem) {
    const section = find(`${list.id}-section`);
    section.hidden = false;
    section.querySelector(".none").replaceChildren(failure(problem));
  }
}
