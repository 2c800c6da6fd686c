// Prompts: arguments, embedded resources, pictures, and completion of an argument.

import { outcome } from "./told.mjs";

const NAMED = "test_prompt_with_arguments";

export async function summary(server) {
  const client = await server.connect(server.client());
  const prompt = (name, given) => outcome(client.getPrompt({ name, arguments: given }));
  const embedded = { resourceUri: "test://example-resource" };
  const ref = { type: "ref/prompt", name: NAMED };
  const argument = { name: "arg1", value: "par" };
  const seen = {
    prompts: (await client.listPrompts()).prompts,
    simple: await prompt("test_simple_prompt"),
    arguments: await prompt(NAMED, { arg1: "hello", arg2: "world" }),
    missing_argument: await prompt(NAMED, { arg1: "hello" }),
    embedded: await prompt("test_prompt_with_embedded_resource", embedded),
    image: await prompt("test_prompt_with_image"),
    unknown: await prompt("nobody"),
    completion: await outcome(client.complete({ ref, argument })),
  };
  await client.close();
  return seen;
}
