// The timeline of a run: its entries with the receipts of their messages. No I/O, no DOM.

/** @import { Entry, RunState, ToolItem, Turn } from "../runs/run_state.js" */

import { warningOf } from "../runs/run_state.js";

const DECISIONS = { allow: "Allowed", allow_conversation: "Allowed for this conversation", deny: "Denied" };

/**
 * @typedef {object} TurnEntry
 * @property {"turn"} kind
 * @property {string} text
 * @property {boolean} hasReasoning
 * @property {ToolItem[]} calls
 * @property {number | null} step
 * @property {boolean} isSubagent
 * @property {Receipt | undefined} receipt
 */

/**
 * @typedef {TurnEntry
 *   | {kind: "started", model: string, attempt: number}
 *   | {kind: "note", text: string}
 *   | {kind: "ended", error: string | null, finishReason: string}} TimelineEntry
 */

/**
 * @param {RunState} run
 * @param {Receipt[]} receipts
 * @param {number} maxChars the length at which texts are cut
 * @returns {TimelineEntry[]}
 */
export function timelineEntries(run, receipts, maxChars) {
  const receiptOf = receiptsByTurn(run.entries, receipts);
  return run.entries.map((entry) => {
    if (entry.kind === "event") return eventEntry(entry.event, run.error);
    const { turn } = entry;
    return {
      kind: "turn",
      text: textOf(turn, maxChars),
      hasReasoning: turn.items.some((item) => item.kind === "thinking"),
      calls: turn.items.filter((item) => item.kind === "tool"),
      step: turn.step,
      isSubagent: turn.parent !== null,
      receipt: receiptOf.get(turn),
    };
  });
}

/**
 * @param {Turn} turn
 * @param {number} maxChars
 */
function textOf(turn, maxChars) {
  let text = "";
  for (const item of turn.items) {
    if (item.kind === "text" && text.length <= maxChars) text += item.text.slice(0, maxChars + 1);
  }
  return text.length > maxChars ? `${text.slice(0, maxChars)}…` : text;
}

/**
 * The receipt of each turn's message, where it can be determined.
 * @param {Entry[]} entries
 * @param {Receipt[]} receipts
 * @returns {Map<Turn, Receipt>}
 */
function receiptsByTurn(entries, receipts) {
  const turns = entries.flatMap((entry) => (entry.kind === "turn" ? [entry.turn] : []));
  const charges = receipts.filter(({ basis }) => basis !== "adjustment");
  const byMessage = new Map(charges.map((receipt) => [receipt.usageUnitId, receipt]));
  /** @type {Map<Turn, Receipt>} */
  const found = new Map();
  for (const turn of turns) {
    const messageId = turn.messageIds.find((id) => byMessage.has(id));
    const receipt = messageId === undefined ? undefined : byMessage.get(messageId);
    if (receipt === undefined) continue;
    found.set(turn, receipt);
    byMessage.delete(receipt.usageUnitId);
  }
  // Events of a message with tool calls only lack its id: the rest is matched in order if the numbers agree.
  const rest = [...byMessage.values()].filter(({ origin }) => origin === "assistant");
  const unmatched = turns.filter((turn) => turn.parent === null && !found.has(turn));
  if (rest.length === unmatched.length) unmatched.forEach((turn, index) => void found.set(turn, rest[index]));
  return found;
}

/**
 * @param {ClientEvent} event
 * @param {string | null} error
 * @returns {TimelineEntry}
 */
function eventEntry(event, error) {
  switch (event.type) {
    case "run_started":
      return { kind: "started", model: event.model, attempt: event.attempt };
    case "done":
      return { kind: "ended", error, finishReason: event.finishReason };
    case "queued":
      return note(`Waits in the queue at position ${event.position}`);
    case "user_message":
      return note(`Received a message: ${event.content.slice(0, 200)}`);
    case "permission_request":
      return note(`Requests permission to use ${event.toolName}`);
    case "budget_reached":
      return note("Has reached its budget, and waits for a higher one");
    case "permission_resolved":
      return note(`${DECISIONS[event.decision]} (${event.reason})`);
    case "question":
      return note(`Asks: ${event.questions.map(({ question }) => question.slice(0, 200)).join(" ")}`);
    case "question_resolved":
      return note(`Question: ${event.resolvedBy.replace("_", " ")}`);
    case "interrupted":
      return note(`${event.kind === "cancel" ? "Cancel" : "Interrupt"}: ${event.state}`);
    case "files_changed": {
      const named = event.files.slice(0, 10).map(({ path, change }) => `${change} ${path.slice(0, 200)}`);
      return note(`Files: ${named.join(", ")}`);
    }
    case "warning":
      return note(warningOf(event));
    case "client_tool_call":
      return note(`Has the client call ${event.toolName}`);
    case "status":
      return note("Summarizes earlier messages for the model");
    default:
      return note(event.type);
  }
}

/**
 * @param {string} text
 * @returns {TimelineEntry}
 */
function note(text) {
  return { kind: "note", text };
}
