// assistant-ui with the AG-UI runtime.

import { HttpAgent } from "@ag-ui/client";
import {
  AssistantRuntimeProvider,
  CompositeAttachmentAdapter,
  ExportedMessageRepository,
  SimpleImageAttachmentAdapter,
  SimpleTextAttachmentAdapter,
} from "@assistant-ui/react";
import { fromAgUiMessages, useAgUiRuntime } from "@assistant-ui/react-ag-ui";
import { useMemo } from "react";
import { given, headers, mount } from "./mount.jsx";
import { Thread } from "./thread.jsx";

const attachments = new CompositeAttachmentAdapter([
  new SimpleImageAttachmentAdapter(),
  new SimpleTextAttachmentAdapter(),
]);

function App({ messages }) {
  const agent = useMemo(
    () => new HttpAgent({ url: `${given.url}/v1/ag-ui/${given.graph}`, headers, threadId: given.thread }),
    [],
  );
  const history = useMemo(() => messages && stored(messages), [messages]);
  const runtime = useAgUiRuntime({ agent, adapters: { attachments, history } });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Thread />
    </AssistantRuntimeProvider>
  );
}

/** The history adapter of assistant-ui, over what the server has. */
function stored(messages) {
  const repository = ExportedMessageRepository.fromArray(fromAgUiMessages(messages));
  return { load: async () => repository, append: async () => {} };
}

mount(App, `/v1/ag-ui/${given.graph}/threads/${given.thread}/messages`);
