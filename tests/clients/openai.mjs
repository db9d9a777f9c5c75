// What OpenAI's client makes of our wire: node openai.mjs URL KEY MODEL. Prints one JSON object.

import OpenAI from "openai";

const [url, key, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: key });
const parameters = { type: "object", properties: { about: { type: "string" } } };
const described = { name: "pick_color", description: "Pick a color.", parameters };

const chat = { model, messages: [{ role: "user", content: "Which color?" }] };
const chatTools = { tools: [{ type: "function", function: described }] };
const asked = (await client.chat.completions.create({ ...chat, ...chatTools })).choices[0].message;
const answers = asked.tool_calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "blue" }));
chat.messages.push(asked, ...answers);
const chunks = client.chat.completions.stream({ ...chat, ...chatTools });
const chatted = (await chunks.finalChatCompletion()).choices[0].message.content;

const tools = [{ type: "function", strict: true, ...described }];
const conversation = await client.conversations.create({ metadata: { topic: "colors" } });
const begun = { model, tools, conversation: conversation.id, input: "Which color?" };
const first = await client.responses.stream(begun).finalResponse();
const results = first.output
  .filter((item) => item.type === "function_call")
  .map((item) => ({ type: "function_call_output", call_id: item.call_id, output: "blue" }));
const known = { model, tools, previous_response_id: first.id };
const responded = await client.responses.stream({ ...known, input: results }).finalResponse();
const read = await client.responses.retrieve(responded.id);
const items = [];
for await (const item of client.conversations.items.list(conversation.id, { order: "asc", limit: 2 })) {
  items.push(item.type);
}
const given = await client.responses.inputItems.list(responded.id);

console.log(
  JSON.stringify({
    called: [asked.tool_calls[0].function.name, first.output.at(-1).name],
    answered: [chatted, responded.output_text, read.output_text],
    items: [items, given.data.map((item) => item.output)],
    usage: responded.usage.total_tokens > 0,
  }),
);
