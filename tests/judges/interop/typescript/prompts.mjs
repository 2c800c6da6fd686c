// Prompts: arguments, embedded resources, images, and completion of an argument.

import { outcome } from "./common.mjs";

const PROMPT = "test_prompt_with_arguments";

export async function summary(server) {
  const client = await server.connect(server.client());
  const prompt = (name, args) => outcome(client.getPrompt({ name, arguments: args }));
  const embedded = { resourceUri: "test://example-resource" };
  const ref = { type: "ref/prompt", name: PROMPT };
  const argument = { name: "arg1", value: "par" };
  const results = {
    prompts: (await client.listPrompts()).prompts,
    simple: await prompt("test_simple_prompt"),
    arguments: await prompt(PROMPT, { arg1: "hello", arg2: "world" }),
    missing_argument: await prompt(PROMPT, { arg1: "hello" }),
    embedded: await prompt("test_prompt_with_embedded_resource", embedded),
    image: await prompt("test_prompt_with_image"),
    unknown: await prompt("unknown"),
    completion: await outcome(client.complete({ ref, argument })),
  };
  await client.close();
  return results;
}
