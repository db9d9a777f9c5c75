// What a chat of the AI SDK makes of our wire: node ai_sdk.mjs URL KEY PACKAGE PROVIDER [STORY…]
// PACKAGE is "ai" (the newest release), "ai-6" or "ai-oldest" (5.0.0), PROVIDER that of the graphs. Prints one JSON object, a member a story.

const [url, key, name, provider, ...chosen] = process.argv.slice(2);
const {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  readUIMessageStream,
} = await import(name);

const OLDEST = name === "ai-oldest";
const ASSISTANT = `${provider}:assistant`;
const CHEAP = "messages:assistant";
const MAILER = `${provider}:mailer`;
const HELPER = `${provider}:helper`;
const ASKER = `${provider}:asker`;
const TOOLS = {
  pick_color: {
    description: "Pick a color.",
    parameters: { type: "object", properties: { about: { type: "string" } }, required: ["about"] },
  },
  "no name of a tool": { parameters: {} },
};
const AUTH = { Authorization: `Bearer ${key}` };

function post(path, body) {
  return fetch(url + path, {
    method: "POST",
    headers: { ...AUTH, "content-type": "application/json" },
    body: JSON.stringify(body ?? {}),
  });
}

function transportTo(graph, headers = {}) {
  return new DefaultChatTransport({
    api: `${url}/v1/ai-sdk/${graph}/chat`,
    headers: { ...AUTH, ...headers },
  });
}

class Memory {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, structuredClone(message)));
  snapshot = (thing) => structuredClone(thing);
}

class Chat extends AbstractChat {
  constructor(init) {
    super({ ...init, state: new Memory() });
  }
}

function chatWith(graph, init = {}) {
  const received = { data: [], errors: [], finishReasons: [] };
  const chat = new Chat({
    transport: transportTo(graph, init.headers),
    onData: (part) => received.data.push(structuredClone(part)),
    onError: (error) => void received.errors.push(error.message),
    onFinish: ({ finishReason }) => void received.finishReasons.push(finishReason ?? null),
    ...init,
  });
  return { chat, received };
}

function stateOf({ chat, received }) {
  return { id: chat.id, status: chat.status, messages: chat.messages, ...received };
}

async function sendAll(graph, ...texts) {
  const made = chatWith(graph);
  for (const text of texts) await made.chat.sendMessage({ text });
  return stateOf(made);
}

function question(id, text) {
  return { id, role: "user", parts: [{ type: "text", text }] };
}

async function opened(chatId, text, abortSignal, upTo = "text-delta") {
  const transport = transportTo(ASSISTANT);
  const messages = [question(`${chatId}-1`, text)];
  const stream = await transport.sendMessages({
    chatId,
    messages,
    abortSignal,
    trigger: "submit-message",
    messageId: undefined,
  });
  const reader = stream.getReader();
  const chunks = [];
  for (let kind; kind !== upTo; kind = chunks.at(-1).type) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the stream has ended before any part arrived");
    chunks.push(value);
  }
  return { transport, messages, reader, chunks };
}

async function last(stream) {
  let message;
  const errors = [];
  for await (const each of readUIMessageStream({ stream, onError: (e) => errors.push(e.message) })) message = each;
  return { message, errors };
}

async function until(isSo, polls = 1200) {
  while (!isSo()) {
    if (polls-- === 0) throw new Error(`waited in vain for ${isSo}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const STORIES = {
  text: () => sendAll(ASSISTANT, "odd text"),
  line: () => sendAll(ASSISTANT, "a long line"),
  turns: () => sendAll(ASSISTANT, "the time", "and then"),
  search: () => sendAll(ASSISTANT, "a search", "and then"),
  toolError: () => sendAll(ASSISTANT, "a bad call"),
  runError: () => sendAll(ASSISTANT, "a failure"),

  async chunks() {
    const chunks = [];
    for (const text of ["the time", "a failure"]) {
      const { chunks: first, reader } = await opened(`${name}-${text.replace(" ", "-")}`, text, undefined, "start");
      chunks.push(...first);
      for (let read = await reader.read(); !read.done; read = await reader.read()) chunks.push(read.value);
    }
    return chunks;
  },

  async stop() {
    // Not "hold on": the chats of another release may let that go before this one is stopped.
    const { reader, chunks } = await opened(`${name}-stop`, "stay");
    const path = `/v1/ai-sdk/${ASSISTANT}/chat/${name}-stop/stop`;
    const stopped = await post(path);
    for (let read = await reader.read(); !read.done; read = await reader.read()) chunks.push(read.value);
    const again = await post(path);
    return { chunks, statuses: [stopped.status, again.status] };
  },

  async reconnect() {
    const leaving = new AbortController();
    const { transport, chunks } = await opened(`${name}-leave`, "hold on", leaving.signal);
    leaving.abort();
    const stream = await transport.reconnectToStream({ chatId: `${name}-leave` });
    const [received, shown] = stream.tee();
    const reader = received.getReader();
    const replayed = [];
    while (replayed.length < chunks.length) replayed.push((await reader.read()).value);
    reader.cancel();
    await post("/v1/runs/wait", { graphId: ASSISTANT, messages: [{ role: "user", content: "let go" }] });
    const { message, errors } = await last(shown);
    return { same: JSON.stringify(chunks) === JSON.stringify(replayed), message, errors };
  },

  async nothing() {
    return await transportTo(ASSISTANT).reconnectToStream({ chatId: "nobody-speaks-here" });
  },

  async twice() {
    const chatId = `${name}-twice`;
    const request = { chatId, messages: [question("q", "odd text")], trigger: "submit-message" };
    const first = await last(await transportTo(ASSISTANT).sendMessages(request));
    const second = await last(await transportTo(ASSISTANT).sendMessages(request));
    return [first.message, second.message];
  },

  async clientTools() {
    const [posts, called] = [[], []];
    const made = chatWith(HELPER, {
      transport: new DefaultChatTransport({
        api: `${url}/v1/ai-sdk/${HELPER}/chat`,
        headers: AUTH,
        body: { tools: TOOLS },
        fetch(...request) {
          if (request[1].method === "POST") posts.push(request[0]);
          return fetch(...request);
        },
      }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall({ toolCall: { toolName: tool, toolCallId, input } }) {
        called.push([tool, input]);
        if (input.about === "nothing") return;
        const result = { tool, toolCallId, output: { color: input.about === "sky" ? "blue" : "green" } };
        if (OLDEST) void made.chat.addToolResult(result);
        else void made.chat.addToolOutput(result);
      },
    });
    await made.chat.sendMessage({ text: "pick colors" });
    await until(() => posts.length === 2 && made.chat.status === "ready");
    const picked = structuredClone(stateOf(made));
    await made.chat.sendMessage({ text: "pick nothing" });
    const reloaded = await last(await made.chat.transport.reconnectToStream({ chatId: made.chat.id }));
    await made.chat.sendMessage({ text: "never mind" });
    return { picked, reloaded, after: stateOf(made), posts: posts.length, called };
  },

  async question() {
    const made = chatWith(ASKER, {
      onData(part) {
        if (part.type !== "data-question" || part.data.state !== "asked") return;
        const { runId, requestId, questions } = part.data;
        const answers = { [questions[0].question]: questions[0].options[0].label };
        void post(`/v1/runs/${runId}/questions/${requestId}`, { answers });
      },
    });
    await made.chat.sendMessage({ text: "ask me" });
    return stateOf(made);
  },

  async refused() {
    const shown = {};
    for (const kind of ["regenerate", "edit"]) {
      let isRefusing = false;
      const made = chatWith(CHEAP, {
        transport: new DefaultChatTransport({
          api: `${url}/v1/ai-sdk/${CHEAP}/chat`,
          headers: AUTH,
          fetch: async (...request) => (isRefusing ? new Response("no", { status: 429 }) : fetch(...request)),
        }),
      });
      await made.chat.sendMessage({ text: `${name} ${kind} BLUE` });
      isRefusing = true;
      const messageId = made.chat.messages[0].id;
      if (kind === "regenerate") await made.chat.regenerate();
      else await made.chat.sendMessage({ text: `${name} ${kind} RED`, messageId });
      isRefusing = false;
      await made.chat.sendMessage({ text: `${name} ${kind} next` });
      shown[kind] = stateOf(made);
    }
    return shown;
  },

  async leave() {
    const left = [];
    for (const next of [undefined, "and on"]) {
      const made = chatWith(CHEAP, {
        transport: new DefaultChatTransport({
          api: `${url}/v1/ai-sdk/${CHEAP}/chat`,
          headers: AUTH,
          body: { onDisconnect: "cancel" },
        }),
      });
      const sending = made.chat.sendMessage({ text: "stay" });
      await until(() => made.chat.lastMessage?.parts.some((part) => part.text?.startsWith("one")));
      const runId = made.chat.lastMessage.id;
      await made.chat.stop();
      await sending;
      if (next !== undefined) await made.chat.sendMessage({ text: next });
      let run;
      do {
        run = await (await fetch(`${url}/v1/runs/${runId}`, { headers: AUTH })).json();
        await new Promise((resolve) => setTimeout(resolve, 50));
      } while (run.status === "running");
      left.push({ ...stateOf(made), run: run.status });
    }
    return left;
  },

  async retry() {
    const made = chatWith(ASSISTANT);
    await made.chat.sendMessage({ text: `fails at first, ${name}` });
    const before = structuredClone(stateOf(made));
    made.received.errors = [];
    await made.chat.regenerate();
    return { before, after: stateOf(made) };
  },
};

if (OLDEST) {
  STORIES.consent = async () => {
    const made = chatWith(MAILER, {
      onData(part) {
        made.received.data.push(structuredClone(part));
        if (part.type !== "data-permission" || part.data.state !== "requested") return;
        const { runId, requestId } = part.data;
        void post(`/v1/runs/${runId}/permissions/${requestId}`, { decision: "allow" });
      },
    });
    await made.chat.sendMessage({ text: "write to oldest@example.org" });
    return stateOf(made);
  };
} else {
  const asked = (message) => message?.parts.find((part) => part.state === "approval-requested");
  const decided = async (prompt, approvals) => {
    const posts = [];
    const made = chatWith(MAILER, {
      transport: new DefaultChatTransport({
        api: `${url}/v1/ai-sdk/${MAILER}/chat`,
        headers: { ...AUTH, "X-AI-SDK-Version": "7" },
        fetch(...request) {
          posts.push(request[0]);
          return fetch(...request);
        },
      }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    await made.chat.sendMessage({ text: prompt });
    const before = structuredClone(stateOf(made));
    for (const approval of approvals) {
      await until(() => made.chat.status === "ready" && asked(made.chat.lastMessage));
      const { id } = asked(made.chat.lastMessage).approval;
      await made.chat.addToolApprovalResponse({ id, ...approval });
    }
    const count = approvals.length + 1;
    await until(() => posts.length === count && made.chat.status !== "submitted" && made.chat.status !== "streaming");
    return { before, after: stateOf(made), posts: posts.length };
  };
  STORIES.approve = () => decided("write to newest@example.org", [{ approved: true }]);
  STORIES.deny = () => decided("write to nobody@example.org", [{ approved: false, reason: "Never." }]);
  STORIES.both = () => decided("write twice", [{ approved: false }, { approved: true }]);
}

const results = {};
for (const [story, tell] of Object.entries(STORIES)) {
  if (chosen.length > 0 && !chosen.includes(story)) continue;
  console.error(`${name}: ${story}`);
  results[story] = await tell().catch((error) => ({ failed: String(error.stack) }));
}
console.log(JSON.stringify(results));
