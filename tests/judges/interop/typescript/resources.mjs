// Resources: lists, templates, text, blobs, completion and an unknown URI.

import { outcome } from "./common.mjs";

export async function summary(server) {
  const client = await server.connect(server.client());
  const read = (uri) => outcome(client.readResource({ uri }));
  const template = { type: "ref/resource", uri: "test://template/{id}/data" };
  const argument = { name: "id", value: "12" };
  const results = {
    resources: (await client.listResources()).resources,
    templates: (await client.listResourceTemplates()).resourceTemplates,
    text: await read("test://static-text"),
    blob: await read("test://static-binary"),
    template: await read("test://template/42/data"),
    unknown: await read("test://unknown"),
    completion: await outcome(client.complete({ ref: template, argument })),
  };
  await client.close();
  return results;
}
