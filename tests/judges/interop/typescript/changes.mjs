// Change notifications: tools, prompts, and resources of a watched directory.
//
// A legacy client receives `list_changed` without subscribing and subscribes to resources one by
// one; a modern one opens a `subscriptions/listen` stream for both. The server must serve one
// directory that this script may write to.

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { EventLog, outcome } from "./common.mjs";

const TOOL = "test_dynamic_tool";
const PROMPT = "test_dynamic_prompt";
const LISTS = ["tools", "prompts", "resources"];

export async function summary(server) {
  const received = new EventLog();
  const client = server.client();
  for (const list of LISTS) {
    const method = `notifications/${list}/list_changed`;
    client.setNotificationHandler(method, () => received.add(method));
  }
  const updated = "notifications/resources/updated";
  client.setNotificationHandler(updated, ({ params }) => received.add(`${updated} ${params.uri}`));
  await server.connect(client);

  const { resources } = await client.listResources();
  const { uri } = resources.find((resource) => resource.uri.startsWith("file:"));
  const subscribe = server.isLegacy ? subscription : stream;
  const subscribed = await subscribe(client, uri);
  const results = {
    honored: subscribed.honored,
    tools: await tools(client, received),
    prompts: await prompts(client, received),
    file: await file(client, received, uri),
  };
  await subscribed.close();
  await client.close();
  return { ...results, uri, notifications: received.items };
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

/** Adds a tool, calls it and removes it. */
async function tools(client, received) {
  const isListed = async () => (await client.listTools()).tools.some(({ name }) => name === TOOL);
  const toggle = async (count) => {
    await client.callTool({ name: "test_trigger_tool_change" });
    await received.waitFor(count, "notifications/tools/list_changed");
    return isListed();
  };
  const [before, added] = [await isListed(), await toggle(1)];
  const called = await outcome(client.callTool({ name: TOOL }));
  return { listed: [before, added, await toggle(2)], called };
}

/** Adds a prompt, gets it and removes it. */
async function prompts(client, received) {
  const isListed = async () =>
    (await client.listPrompts()).prompts.some(({ name }) => name === PROMPT);
  const toggle = async (count) => {
    await client.callTool({ name: "test_trigger_prompt_change" });
    await received.waitFor(count, "notifications/prompts/list_changed");
    return isListed();
  };
  const [before, added] = [await isListed(), await toggle(1)];
  const called = await outcome(client.getPrompt({ name: PROMPT }));
  return { listed: [before, added, await toggle(2)], called };
}

/** Rewrites a file and creates a second one in the same directory. */
async function file(client, received, uri) {
  const text = async () => (await client.readResource({ uri })).contents[0].text;
  writeFileSync(fileURLToPath(uri), "after");
  await waitForChange(received, `notifications/resources/updated ${uri}`, async () => {
    return (await text()) === "after";
  });
  const second = new URL("second.txt", uri).href;
  writeFileSync(fileURLToPath(second), "second");
  await waitForChange(received, "notifications/resources/list_changed", async () => {
    const { resources } = await client.listResources();
    return resources.some((resource) => resource.uri === second);
  });
  return { text: await text(), second };
}

/** Checks after each notification: one write may cause two of them. */
async function waitForChange(received, item, isDone) {
  let count = 1;
  do {
    await received.waitFor(count, item);
    count += 1;
  } while (!(await isDone()));
}
