// What chats of each release of the AI SDK post: a first message, a second one, and an answer to be repeated.
// Prints {release: [requests]}. The ids, which are random, are replaced by numbers.

class Memory {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, structuredClone(message)));
  snapshot = (thing) => structuredClone(thing);
}

/** An answer in the wire that all of them understand. */
const answer = (messageId) => [
  { type: "start", messageId },
  { type: "start-step" },
  { type: "text-start", id: "text" },
  { type: "text-delta", id: "text", delta: "Hello." },
  { type: "text-end", id: "text" },
  { type: "finish-step" },
  { type: "finish" },
];
const frames = (parts) => [...parts.map((part) => JSON.stringify(part)), "[DONE]"].map((data) => `data: ${data}\n\n`);

const printed = {};
for (const release of process.argv.slice(2)) {
  const { AbstractChat, DefaultChatTransport } = await import(release);
  class Chat extends AbstractChat {}
  const requests = [];
  const transport = new DefaultChatTransport({
    api: "http://runtally.test/chat",
    async fetch(url, { method, headers, body }) {
      requests.push({ url, method, headers: [...new Headers(headers)], body });
      const stream = frames(answer(`answer-${requests.length}`)).join("");
      return new Response(stream, { headers: { "content-type": "text/event-stream" } });
    },
  });
  const chat = new Chat({ state: new Memory(), transport });
  await chat.sendMessage({ text: "hello" });
  await chat.sendMessage({ text: "and then" });
  await chat.regenerate();
  if (chat.error) throw chat.error;
  const ids = [chat.id, ...chat.messages.map(({ id }) => id)];
  const text = ids.reduce((text, id, number) => text.replaceAll(id, `id-${number}`), JSON.stringify(requests));
  printed[release] = JSON.parse(text);
}
process.stdout.write(JSON.stringify(printed));
