// Content types of tool results, and `tools/list`.

import { outcome } from "./common.mjs";

const TOOLS = [
  "test_simple_text",
  "test_image_content",
  "test_audio_content",
  "test_embedded_resource",
  "test_multiple_content_types",
  "test_tool_with_icons",
  "test_error_handling",
];

export async function summary(server) {
  const client = await server.connect(server.client());
  const call = (name, args) => outcome(client.callTool({ name, arguments: args }));
  const { tools } = await client.listTools();
  const calls = {};
  for (const name of TOOLS) {
    calls[name] = await call(name);
  }
  const contact = { name: "Ada", contactMethod: "email", email: "ada@example.org" };
  const results = {
    tools: Object.fromEntries(tools.map((tool) => [tool.name, tool])),
    calls,
    structured: await call("add", { a: 2, b: 40 }),
    contact: await call("json_schema_2020_12_tool", contact),
    bad_contact: await call("json_schema_2020_12_tool", { ...contact, age: 36 }),
    region: await call("test_header_parameter", { region: "eu" }),
  };
  await client.close();
  return results;
}
