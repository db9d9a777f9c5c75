// CopilotKit's chat; its runtime is in server.mjs.

import {
  CopilotChat,
  CopilotKit,
  useConfigureSuggestions,
  useDefaultRenderTool,
  useFrontendTool,
  useHumanInTheLoop,
  useInterrupt,
} from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { z } from "zod";
import { given, headers, mount } from "./mount.jsx";

function Tools() {
  useDefaultRenderTool({
    render: ({ name, status, result }) => (
      <section data-state={status}>
        {name} {result}
      </section>
    ),
  });
  useInterrupt({
    agentId: given.graph,
    render: ({ interrupt, resolve }) => (
      <section data-state="interrupt">
        {interrupt.message}
        <button onClick={() => resolve({ approved: true })}>Approve</button>
        <button onClick={() => resolve({ approved: false })}>Deny</button>
      </section>
    ),
  });
  return (
    <>
      {"location" in given && <GetLocation />}
      {"confirm" in given && <Confirm />}
      {"suggestions" in given && <Suggestions />}
    </>
  );
}

function GetLocation() {
  useFrontendTool({
    name: "getLocation",
    description: "Where the person is.",
    parameters: z.object({ exact: z.boolean().optional() }),
    handler: async () => ({ city: "Lisbon" }),
    render: ({ status, result }) => <section data-state={status}>getLocation {result}</section>,
  });
  return null;
}

function Confirm() {
  useHumanInTheLoop({
    name: "confirm",
    description: "Have the person choose.",
    parameters: z.object({ question: z.string() }),
    render: ({ args, status, respond, result }) => (
      <section data-state={status}>
        {args.question} {result}
        {respond && <button onClick={() => respond({ chosen: "yes" })}>Yes</button>}
      </section>
    ),
  });
  return null;
}

function Suggestions() {
  useConfigureSuggestions({ instructions: "Suggest what to write next.", maxSuggestions: 2 });
  return null;
}

function App() {
  return (
    <CopilotKit runtimeUrl="/api/copilotkit" headers={headers}>
      <Tools />
      <CopilotChat agentId={given.graph} threadId={given.thread} attachments={{ enabled: true }} />
    </CopilotKit>
  );
}

mount(App);
