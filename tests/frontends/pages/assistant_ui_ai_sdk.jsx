// assistant-ui with the AI SDK's runtime.

import { AssistantRuntimeProvider } from "@assistant-ui/react";
import { AssistantChatTransport, useChatRuntime } from "@assistant-ui/react-ai-sdk";
import { lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { useMemo } from "react";
import { given, headers, mount } from "./mount.jsx";
import { Thread } from "./thread.jsx";

function App() {
  const api = `${given.url}/v1/ai-sdk/${given.graph}/chat`;
  const transport = useMemo(() => new AssistantChatTransport({ api, headers }), [api]);
  const runtime = useChatRuntime({ transport, sendAutomaticallyWhen });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Thread />
    </AssistantRuntimeProvider>
  );
}

function sendAutomaticallyWhen(chat) {
  return lastAssistantMessageIsCompleteWithToolCalls(chat) || lastAssistantMessageIsCompleteWithApprovalResponses(chat);
}

mount(App);
