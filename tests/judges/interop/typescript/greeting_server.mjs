// A server with the TypeScript SDK over standard streams. The tool `greet` asks for a name.

import { requirePackage } from "./packages.mjs";

const { z } = requirePackage("zod");
const { McpServer, acceptedContent, inputRequired } = requirePackage(
  "@modelcontextprotocol/server",
);
const { serveStdio } = requirePackage("@modelcontextprotocol/server/stdio");

const content = (text) => ({ content: [{ type: "text", text }] });

function newServer() {
  const server = new McpServer({ name: "typescript", version: "1.0.0" });
  const text = z.object({ text: z.string() });
  server.registerTool("echo", { inputSchema: text }, ({ text }) => content(text));
  // The SDK asks clients up to 2025-11-25 with a request.
  server.registerTool("greet", { inputSchema: z.object({}) }, (_, context) => {
    const requestedSchema = z.object({ name: z.string() });
    const { name } = acceptedContent(context.mcpReq.inputResponses, "who", requestedSchema) ?? {};
    if (name === undefined) {
      const who = inputRequired.elicit({ message: "Who are you?", requestedSchema });
      return inputRequired({ inputRequests: { who } });
    }
    return content(`Hello, ${name}!`);
  });
  return server;
}

serveStdio(newServer);
