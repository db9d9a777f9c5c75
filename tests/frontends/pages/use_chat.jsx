// `useChat` as the AI SDK's documentation shows it.

import { useChat } from "@ai-sdk/react";
import * as ai from "ai";
import { useState } from "react";
import { given, headers, mount } from "./mount.jsx";

const transport = new ai.DefaultChatTransport({
  api: `${given.url}/v1/ai-sdk/${given.graph}/chat`,
  headers,
  body: "leave" in given ? { onDisconnect: given.leave } : undefined,
});

function Chat({ messages: stored }) {
  const [draft, setDraft] = useState("");
  const [files, setFiles] = useState();
  const [edited, setEdited] = useState();
  const { messages, sendMessage, regenerate, stop, status, error, clearError, addToolApprovalResponse } = useChat({
    id: given.thread,
    messages: stored,
    resume: "resume" in given,
    transport,
    // Release 5 has no approvals.
    sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
  });

  const busy = status === "submitted" || status === "streaming";

  function send(event) {
    event.preventDefault();
    sendMessage({ text: draft, files, messageId: edited });
    setDraft("");
    setFiles(undefined);
    setEdited(undefined);
  }

  return (
    <main data-status={status}>
      {messages.map((message) => (
        <article key={message.id} data-role={message.role}>
          {message.parts.map((part, index) => (
            <Part key={index} part={part} answer={addToolApprovalResponse} />
          ))}
          {message.role === "user" && <button onClick={() => setEdited(message.id)}>Edit</button>}
          {message.role === "assistant" && (
            <button disabled={busy} onClick={() => regenerate({ messageId: message.id })}>
              Regenerate
            </button>
          )}
        </article>
      ))}
      {error && (
        <p role="alert">
          {error.message} <button onClick={clearError}>Close</button>
        </p>
      )}
      <form onSubmit={send}>
        <input aria-label="Message" disabled={busy} value={draft} onChange={(event) => setDraft(event.target.value)} />
        <input aria-label="Files" type="file" multiple onChange={(event) => setFiles(event.target.files)} />
        <button>Send</button>
        <button type="button" onClick={stop}>
          Stop
        </button>
      </form>
    </main>
  );
}

function Part({ part, answer }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (part.type === "reasoning") return <em>{part.text}</em>;
  if (part.type === "file") return <i>{part.filename ?? part.mediaType}</i>;
  if (!("toolCallId" in part)) return null;
  return (
    <section data-state={part.state}>
      {part.toolName ?? part.type} {part.output !== undefined && JSON.stringify(part.output)} {part.errorText}
      {part.state === "approval-requested" && (
        <>
          <button onClick={() => answer({ id: part.approval.id, approved: true })}>Approve</button>
          <button onClick={() => answer({ id: part.approval.id, approved: false })}>Deny</button>
        </>
      )}
    </section>
  );
}

mount(Chat, `/v1/ai-sdk/${given.graph}/chat/${given.thread}/messages`);
