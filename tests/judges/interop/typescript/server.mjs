// A server with version 1 or 2 of the SDK, over standard streams or HTTP:
//
//   server.mjs v1|v2 stdio|PORT

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Readable } from "node:stream";

import { requirePackage } from "./packages.mjs";

const { z } = requirePackage("zod");
const [version, where] = process.argv.slice(2);
const information = { name: `typescript-${version}`, version: "1.0.0" };
const content = (text) => ({ content: [{ type: "text", text }] });

// Registers the same tool, resource and prompt with both versions.
function fill(server, schema) {
  server.registerTool(
    "echo",
    { description: "Returns the text.", inputSchema: schema({ text: z.string() }) },
    async ({ text }) => content(text),
  );
  server.registerTool("fail", { inputSchema: schema({}) }, async () => {
    throw new Error("the tool failed");
  });
  server.registerResource("note", "test://note", { mimeType: "text/plain" }, async (uri) => ({
    contents: [{ uri: uri.href, text: "a note" }],
  }));
  server.registerPrompt("greet", { argsSchema: schema({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${name}.` } }],
  }));
  return server;
}

async function serveV1() {
  const { McpServer } = requirePackage("@modelcontextprotocol/sdk/server/mcp.js");
  const newServer = () => fill(new McpServer(information), (shape) => shape);
  if (where === "stdio") {
    const stdio = requirePackage("@modelcontextprotocol/sdk/server/stdio.js");
    return newServer().connect(new stdio.StdioServerTransport());
  }
  const http = requirePackage("@modelcontextprotocol/sdk/server/streamableHttp.js");
  const transports = new Map();
  const answer = async (request, response) => {
    let transport = transports.get(request.headers["mcp-session-id"]);
    if (!transport) {
      transport = new http.StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => transports.set(id, transport),
        onsessionclosed: (id) => transports.delete(id),
      });
      await newServer().connect(transport);
    }
    await transport.handleRequest(request, response);
  };
  createServer(answer).listen(Number(where), "127.0.0.1");
}

function serveV2() {
  const { McpServer, createMcpHandler } = requirePackage("@modelcontextprotocol/server");
  const newServer = () => fill(new McpServer(information), z.object);
  if (where === "stdio") {
    return requirePackage("@modelcontextprotocol/server/stdio").serveStdio(newServer);
  }
  const handler = createMcpHandler(newServer);
  const answer = async (request, response) => {
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    const { method, headers } = request;
    const hasBody = method === "POST";
    const { status, headers: fields, body } = await handler.fetch(
      new Request(`http://127.0.0.1:${where}${request.url}`, {
        method,
        headers,
        body: hasBody ? Readable.toWeb(request) : undefined,
        duplex: "half",
        signal: gone.signal,
      }),
    );
    response.writeHead(status, Object.fromEntries(fields));
    response.flushHeaders();
    if (body) {
      Readable.fromWeb(body).on("error", () => response.destroy()).pipe(response);
    } else {
      response.end();
    }
  };
  createServer(answer).listen(Number(where), "127.0.0.1");
}

await (version === "v1" ? serveV1() : serveV2());
