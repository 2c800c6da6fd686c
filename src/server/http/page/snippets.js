// Configuration snippets for clients.

/** Formats a request as a curl command. */
function curl(sent, request) {
  const quoted = (word) => `'${word.replaceAll("'", `'\\''`)}'`;
  const headers = Object.entries(sent).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  const parts = [`curl ${quoted(ENDPOINT)}`, ...headers, `-d ${quoted(JSON.stringify(request))}`];
  return parts.join(" \\\n  ");
}

const python = () => `import asyncio
from mcp import Client


async def main():
    async with Client("${ENDPOINT}") as client:
        for tool in (await client.list_tools()).tools:
            print(tool.name)


asyncio.run(main())
`;

const typescript =
  () => `import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const client = new Client({ name: "example", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL("${ENDPOINT}")));
for (const tool of (await client.listTools()).tools) console.log(tool.name);
await client.close();
`;

function listTools() {
  const meta = { [`${KEY}protocolVersion`]: REVISION, [`${KEY}clientCapabilities`]: {} };
  const request = { jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta: meta } };
  return curl(requestHeaders("tools/list", undefined, []), request);
}

/** Returns each client with the place of its snippet and the snippet; `name` is the server's. */
function snippets(name) {
  // Claude Desktop starts processes; mcp-remote forwards to the endpoint.
  const bridge = { command: "npx", args: ["-y", "mcp-remote", ENDPOINT] };
  if (ENDPOINT.startsWith("http:")) bridge.args.push("--allow-http");
  const servers = (key, server) => pretty({ [key]: { [name]: server } });
  const http = { type: "http", url: ENDPOINT };
  return [
    ["Claude Code", "In a terminal", `claude mcp add --transport http ${name} ${ENDPOINT}`],
    ["Claude Desktop", "claude_desktop_config.json", servers("mcpServers", bridge)],
    ["VS Code", ".vscode/mcp.json", servers("servers", http)],
    ["Cursor", ".cursor/mcp.json", servers("mcpServers", { url: ENDPOINT })],
    ["Python", "After pip install mcp", python()],
    ["TypeScript", "After npm install @modelcontextprotocol/client", typescript()],
    ["curl", "In a terminal", listTools()],
  ];
}

/** Shows the snippet of the selected client. */
function showSnippets(name) {
  const show = (where, snippet) => {
    find("where").textContent = where;
    find("snippet").textContent = snippet;
  };
  const choices = snippets(name).map(([client, where, snippet], at) => {
    const onchange = () => show(where, snippet);
    const radio = make("input", { type: "radio", name: "client", checked: at === 0, onchange });
    if (at === 0) onchange();
    return make("label", {}, radio, client);
  });
  find("clients").replaceChildren(...choices);
}
