// A client of the revision below: requests are stateless, and nothing is loaded from other servers.
// Text of the server is shown as text, never as markup.

const REVISION = "2026-07-28";
const KEY = "io.modelcontextprotocol/";
const find = (id) => document.getElementById(id);
const MCP_PATH = document.querySelector("meta[name=mcp-path]").content;
const ENDPOINT = new URL(`.${MCP_PATH}`, location.href).href;
const pretty = (value) => JSON.stringify(value, null, 2);
const text = (name, textContent, className = "") => make(name, { textContent, className });

/** Creates an element with properties and children; falsy children are skipped. */
function make(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "role" || key.includes("-")) node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.filter(Boolean));
  return node;
}

/** Creates a button that copies the result of `content`. */
function copier(content, label = "Copy") {
  const button = make("button", { type: "button", className: "quiet", "aria-live": "polite" });
  button.textContent = label;
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(content());
    } catch {
      // Without TLS there is no clipboard API: copy a selection.
      copySelected(content());
    }
    button.focus();
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 1500);
  };
  return button;
}

function copySelected(content) {
  const field = make("textarea", { value: content });
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
