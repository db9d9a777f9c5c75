// The HttpAgent of releases of @ag-ui/client with a real server: what each shows after a person's steps.
// Given {url, key, clients: {name: package}}; prints {name: {story: [what is shown after each step]}}.

import { text } from "node:stream/consumers";

const { url, key, clients } = JSON.parse(await text(process.stdin));
const headers = { Authorization: `Bearer ${key}` };
// Older releases write every failure to the console, too.
console.warn = console.error = console.debug = () => {};
const CURRENT = "@ag-ui/client";
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const TOOLS = [{ name: "pick", description: "Pick.", parameters: { type: "object", properties: {} } }];

const entries = Object.entries(clients).map(async ([name, client]) => {
  const { HttpAgent } = await import(client);
  const told = await Promise.all(
    Object.entries(STORIES()).map(async ([story, tell]) => [story, await tell(thread(HttpAgent, name, story), client)]),
  );
  return [name, Object.fromEntries(told)];
});
process.stdout.write(JSON.stringify(Object.fromEntries(await Promise.all(entries))));

/** A conversation. `run` and `say`, which adds a message before, return what is on the screen afterwards. */
function thread(HttpAgent, name, story) {
  const graph = story === "clientTool" ? "helper" : "assistant";
  const threadId = `${name}-${story}`;
  const agent = new HttpAgent({ url: `${url}/v1/ag-ui/messages:${graph}`, headers, threadId });
  let runs = 0;

  async function run(input = {}, onEvent = () => {}) {
    let error = null;
    const subscriber = {
      onEvent({ event }) {
        if (event.type === "RUN_ERROR") error = event.code ?? null;
        onEvent(event);
      },
    };
    // Whether a failed run rejects depends on the release.
    await agent.runAgent({ runId: `${threadId}-${++runs}`, ...input }, subscriber).catch((failure) => {
      error ??= String(failure.message);
    });
    return { error, messages: agent.messages.map(shown) };
  }

  const add = (role, content, fields) => {
    agent.messages = [...agent.messages, { id: crypto.randomUUID(), role, content, ...fields }];
  };
  const say = (content, ...how) => {
    add("user", content);
    return run(...how);
  };
  /** Keep so many messages, as a client does that repeats an answer or edits a message. */
  const keep = (count) => void (agent.messages = agent.messages.slice(0, count));
  return { agent, add, run, say, keep, marked: (content) => `${content} (${threadId})` };
}

function shown({ role, content, toolCalls }) {
  if (Array.isArray(content)) return [role, content.map(({ type, text }) => text ?? type).join(" ")];
  return [role, content || (toolCalls ?? []).map((call) => call.function.name).join(" ")];
}

function STORIES() {
  return {
    async stop({ agent, say, marked }) {
      const stopAt = ({ delta }) => delta?.includes("three") && agent.abortRun();
      const { messages } = await say(marked("slow"), {}, stopAt);
      // Releases report differently that they were stopped.
      return [{ error: null, messages }, await say("next")];
    },
    async branches({ say, keep, run, marked }) {
      const steps = [await say(marked("first")), await say("BLUE")];
      keep(3);
      steps.push(await run());
      keep(2);
      return [...steps, await say("RED"), await say("third")];
    },
    async image({ say, marked }, client) {
      const image =
        client === CURRENT
          ? { type: "image", source: { type: "data", value: PIXEL, mimeType: "image/png" } }
          : { type: "binary", mimeType: "image/png", data: PIXEL };
      return [await say([{ type: "text", text: marked("look") }, image]), await say("next")];
    },
    async clientTool({ agent, say, add, run, marked }) {
      const asked = await say(marked("pick"), { tools: TOOLS });
      const [call] = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []);
      add("tool", "blue", { toolCallId: call.id });
      return [asked, await run({ tools: TOOLS }), await say("next", { tools: TOOLS })];
    },
    async failures({ say, marked }) {
      return [await say(marked("fail")), await say("break off"), await say("next")];
    },
  };
}
