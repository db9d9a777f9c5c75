// A thread of assistant-ui, of its primitives.

import {
  ActionBarPrimitive,
  BranchPickerPrimitive,
  ComposerPrimitive,
  ErrorPrimitive,
  MessagePartPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  useAssistantTool,
} from "@assistant-ui/react";
import { useState } from "react";
import { given } from "./mount.jsx";

export function Thread() {
  return (
    <ThreadPrimitive.Root>
      {"location" in given && <GetLocation />}
      {"confirm" in given && <Confirm />}
      <ThreadPrimitive.Viewport>
        <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage, EditComposer }} />
      </ThreadPrimitive.Viewport>
      <ComposerPrimitive.Root>
        <ComposerPrimitive.Attachments components={{ Attachment: () => <i>attached</i> }} />
        <ComposerPrimitive.AddAttachment>Attach</ComposerPrimitive.AddAttachment>
        <ComposerPrimitive.Input aria-label="Message" />
        <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
        <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
      </ComposerPrimitive.Root>
    </ThreadPrimitive.Root>
  );
}

function UserMessage() {
  return (
    <MessagePrimitive.Root asChild>
      <article data-role="user">
        <MessagePrimitive.Attachments components={{ Attachment: () => <i>attachment</i> }} />
        <MessagePrimitive.Parts components={{ Text }} />
        <ActionBarPrimitive.Root>
          <ActionBarPrimitive.Edit>Edit</ActionBarPrimitive.Edit>
        </ActionBarPrimitive.Root>
        <Branches />
      </article>
    </MessagePrimitive.Root>
  );
}

function AssistantMessage() {
  return (
    <MessagePrimitive.Root asChild>
      <article data-role="assistant">
        <MessagePrimitive.Parts components={{ Text, Reasoning, tools: { Fallback: Tool } }} />
        <MessagePrimitive.Error>
          <ErrorPrimitive.Root>
            <ErrorPrimitive.Message />
          </ErrorPrimitive.Root>
        </MessagePrimitive.Error>
        <ActionBarPrimitive.Root>
          <ActionBarPrimitive.Reload>Regenerate</ActionBarPrimitive.Reload>
        </ActionBarPrimitive.Root>
        <Branches />
      </article>
    </MessagePrimitive.Root>
  );
}

function EditComposer() {
  return (
    <ComposerPrimitive.Root>
      <ComposerPrimitive.Input aria-label="Edited message" />
      <ComposerPrimitive.Send>Save</ComposerPrimitive.Send>
    </ComposerPrimitive.Root>
  );
}

function Branches() {
  return (
    <BranchPickerPrimitive.Root hideWhenSingleBranch>
      <BranchPickerPrimitive.Previous>Previous</BranchPickerPrimitive.Previous>
      <b>
        <BranchPickerPrimitive.Number />/<BranchPickerPrimitive.Count />
      </b>
      <BranchPickerPrimitive.Next>Next</BranchPickerPrimitive.Next>
    </BranchPickerPrimitive.Root>
  );
}

function Text() {
  return (
    <p>
      <MessagePartPrimitive.Text />
    </p>
  );
}

function Reasoning({ text }) {
  return <em>{text}</em>;
}

function Tool({ toolName, result, status, approval, respondToApproval }) {
  return (
    <section data-state={status.type}>
      {toolName} {result !== undefined && JSON.stringify(result)}
      {approval && approval.approved === undefined && !approval.resolution && (
        <>
          <button onClick={() => respondToApproval({ approved: true })}>Approve</button>
          <button onClick={() => respondToApproval({ approved: false })}>Deny</button>
        </>
      )}
    </section>
  );
}

function GetLocation() {
  useAssistantTool({
    toolName: "getLocation",
    description: "Where the person is.",
    parameters: { type: "object", properties: { exact: { type: "boolean" } } },
    execute: async () => ({ city: "Lisbon" }),
    render: Tool,
  });
  return null;
}

/** A tool whose result a person gives. */
function Confirm() {
  useAssistantTool({
    toolName: "confirm",
    type: "human",
    description: "Have the person choose.",
    parameters: { type: "object", properties: { question: { type: "string" } }, required: ["question"] },
    render: Choice,
  });
  return null;
}

function Choice({ args, result, addResult }) {
  const [chosen, setChosen] = useState(false);
  return (
    <section data-state={result === undefined ? "waiting" : "complete"}>
      {args.question} {result !== undefined && JSON.stringify(result)}
      {result === undefined && (
        <button
          disabled={chosen}
          onClick={() => {
            setChosen(true);
            addResult({ chosen: "yes" });
          }}
        >
          Yes
        </button>
      )}
    </section>
  );
}
