// What changes while a client is connected: tools, prompts, a watched directory and its files.
//
// A legacy client hears of lists unasked and subscribes to resources one by one; a modern one
// listens to a stream of both. COMMAND must offer one directory that this script may write to.

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { Heard, outcome } from "./told.mjs";

const TOOL = "test_dynamic_tool";
const PROMPT = "test_dynamic_prompt";
const LISTS = ["tools", "prompts", "resources"];

export async function summary(server) {
  const heard = new Heard();
  const client = server.client();
  for (const list of LISTS) {
    const method = `notifications/${list}/list_changed`;
    client.setNotificationHandler(method, () => heard.add(method));
  }
  const updated = "notifications/resources/updated";
  client.setNotificationHandler(updated, ({ params }) => heard.add(`${updated} ${params.uri}`));
  await server.connect(client);

  const { resources } = await client.listResources();
  const { uri } = resources.find((resource) => resource.uri.startsWith("file:"));
  const following = server.isLegacy ? await subscription(client, uri) : await stream(client, uri);
  const seen = {
    honored: following.honored,
    tools: await tools(client, heard),
    prompts: await prompts(client, heard),
    file: await file(client, heard, uri),
  };
  await following.close();
  await client.close();
  return { ...seen, uri, heard: heard.items };
}

async function subscription(client, uri) {
  await client.subscribeResource({ uri });
  return { honored: {}, close: () => client.unsubscribeResource({ uri }) };
}

async function stream(client, uri) {
  const filter = {
    toolsListChanged: true,
    promptsListChanged: true,
    resourcesListChanged: true,
    resourceSubscriptions: [uri],
  };
  const opened = await client.listen(filter);
  return { honored: opened.honoredFilter, close: () => opened.close() };
}

/** A tool that comes, is called, and goes. */
async function tools(client, heard) {
  const offered = async () => (await client.listTools()).tools.some(({ name }) => name === TOOL);
  const toggle = async (count) => {
    await client.callTool({ name: "test_trigger_tool_change" });
    await heard.until(count, "notifications/tools/list_changed");
    return offered();
  };
  const [before, come] = [await offered(), await toggle(1)];
  const called = await outcome(client.callTool({ name: TOOL }));
  return { offered: [before, come, await toggle(2)], called };
}

/** A prompt that comes, is read, and goes. */
async function prompts(client, heard) {
  const offered = async () =>
    (await client.listPrompts()).prompts.some(({ name }) => name === PROMPT);
  const toggle = async (count) => {
    await client.callTool({ name: "test_trigger_prompt_change" });
    await heard.until(count, "notifications/prompts/list_changed");
    return offered();
  };
  const [before, come] = [await offered(), await toggle(1)];
  const called = await outcome(client.getPrompt({ name: PROMPT }));
  return { offered: [before, come, await toggle(2)], called };
}

/** A file that is rewritten, and another that appears beside it. */
async function file(client, heard, uri) {
  const text = async () => (await client.readResource({ uri })).contents[0].text;
  writeFileSync(fileURLToPath(uri), "after");
  await settled(heard, `notifications/resources/updated ${uri}`, async () => {
    return (await text()) === "after";
  });
  const second = new URL("second.txt", uri).href;
  writeFileSync(fileURLToPath(second), "second");
  await settled(heard, "notifications/resources/list_changed", async () => {
    const { resources } = await client.listResources();
    return resources.some((resource) => resource.uri === second);
  });
  return { text: await text(), second };
}

/** Looks with each notification, until what was done is seen: one write may be told in two. */
async function settled(heard, item, isThere) {
  let count = 1;
  do {
    await heard.until(count, item);
    count += 1;
  } while (!(await isThere()));
}
