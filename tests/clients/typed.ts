// Compiled, not run: what a server has streamed must have the types that its OpenAPI document gives.
import type { components } from "./api.js";

type ClientEvent = components["schemas"]["ClientEvent"];
type AgUiEvent = components["schemas"]["AgUiEvent"];

export const streamed: ClientEvent[] = [/* what was streamed */];
export const agUi: AgUiEvent[] = [/* what AG-UI was told */];

// @ts-expect-error the types are not so wide that anything would do
export const wrong: ClientEvent = { type: "text_delta", messageId: 1, delta: "x" };

// @ts-expect-error
export const wrongAgUi: AgUiEvent = { type: "TEXT_MESSAGE_END" };

// Every type of event can be told by its `type`, and there is none beyond these.
export function shown(event: ClientEvent): string {
  switch (event.type) {
    case "run_started":
      return event.model;
    case "queued":
      return `${event.position}`;
    case "text_delta":
    case "thinking_delta":
      return event.delta;
    case "status":
      return event.label;
    case "step":
      return `${event.stepIndex} of ${event.stepBudget ?? "any"}`;
    case "tool_call_start":
    case "client_tool_call":
    case "permission_request":
      return event.toolName;
    case "tool_call_result":
      return event.isError ? "failed" : "done";
    case "citation":
      return event.url;
    case "message_discarded":
      return event.messageId;
    case "warning":
      return event.message;
    case "user_message":
    case "assistant_final":
      return event.content;
    case "permission_resolved":
      return event.decision;
    case "question":
      return event.questions.map((item) => item.question).join(", ");
    case "question_resolved":
      return event.resolvedBy;
    case "budget_reached":
      return event.expiresAt;
    case "files_changed":
      return event.files.map((file) => `${file.change} ${file.path}`).join(", ");
    case "interrupted":
      return event.state;
    case "error":
      return event.error;
    case "done":
      return event.finishReason;
    default: {
      const beyond: never = event;
      return beyond;
    }
  }
}
