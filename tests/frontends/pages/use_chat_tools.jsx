// `useChat` with a tool that runs in the browser, as the AI SDK's documentation shows it.

import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { useState } from "react";
import { given, headers, mount } from "./mount.jsx";

const tools = {
  getLocation: {
    description: "Where the person is.",
    inputSchema: { type: "object", properties: { exact: { type: "boolean" } } },
  },
};

function Chat() {
  const [draft, setDraft] = useState("");
  const { messages, sendMessage, status, error, addToolOutput } = useChat({
    id: given.thread,
    transport: new DefaultChatTransport({
      api: `${given.url}/v1/ai-sdk/${given.graph}/chat`,
      headers,
      body: { tools },
    }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall({ toolCall }) {
      if (toolCall.toolName !== "getLocation") return;
      addToolOutput({ tool: "getLocation", toolCallId: toolCall.toolCallId, output: { city: "Lisbon" } });
    },
  });

  return (
    <main data-status={status}>
      {messages.map((message) => (
        <article key={message.id} data-role={message.role}>
          {message.parts.map((part, index) =>
            part.type === "text" ? (
              <p key={index}>{part.text}</p>
            ) : (
              "toolCallId" in part && (
                <section key={index} data-state={part.state}>
                  {part.toolName ?? part.type} {JSON.stringify(part.output)}
                </section>
              )
            ),
          )}
        </article>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          sendMessage({ text: draft });
          setDraft("");
        }}
      >
        <input aria-label="Message" value={draft} onChange={(event) => setDraft(event.target.value)} />
        <button>Send</button>
      </form>
    </main>
  );
}

mount(Chat);
