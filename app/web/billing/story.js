// Events into entries of a timeline; pure.
//
// A turn is what one message of the model said and called:
// {kind: "turn", messageIds, text, thought, calls, step, subagent, open}.
// Other entries are {kind: "started" | "ended" | "note", …}.

const KEPT_CHARS = 2000;

/** The entries after one more event. */
export function fold(entries, event) {
  switch (event.type) {
    case "run_started":
      return [...entries, { kind: "started", model: event.model, attempt: event.attempt }];
    case "text_delta":
      return inTurn(entries, event, (turn) => ({
        messageIds: seen(turn, event.messageId),
        text: turn.text.length < KEPT_CHARS ? turn.text + event.delta : turn.text,
      }));
    case "thinking_delta":
      return inTurn(entries, event, (turn) => ({ messageIds: seen(turn, event.messageId), thought: true }));
    case "tool_call_start": {
      const call = { id: event.toolCallId, toolName: event.toolName, args: event.args };
      return inTurn(entries, event, (turn) => ({ calls: [...turn.calls, call] }));
    }
    case "tool_call_result":
      return entries.map((entry) => (entry.kind === "turn" ? answered(entry, event) : entry));
    case "step":
      return entries.map((entry) => (isOpen(entry, event) ? { ...entry, open: false, step: event.stepIndex } : entry));
    case "error":
      return [...entries, { kind: "ended", error: event.error, finishReason: "" }];
    case "done":
      return ended(entries, event);
    default:
      return noteOf(event) === null ? entries : [...entries, { kind: "note", text: noteOf(event) }];
  }
}

/** The same entries, each turn with the receipt of its message where that can be told. */
export function withReceipts(entries, receipts) {
  const byMessage = new Map(receipts.filter(({ basis }) => basis !== "adjustment").map((each) => [each.usageUnitId, each]));
  const found = new Map();
  for (const entry of entries) {
    const message = entry.kind === "turn" && entry.messageIds.find((id) => byMessage.has(id));
    if (message) {
      found.set(entry, byMessage.get(message));
      byMessage.delete(message);
    }
  }
  // A message that only calls tools does not say its id: those left over, in order, if it is as many.
  const left = [...byMessage.values()].filter(({ origin }) => origin === "assistant");
  const unclaimed = entries.filter((entry) => entry.kind === "turn" && !entry.subagent && !found.has(entry));
  if (left.length === unclaimed.length) unclaimed.forEach((entry, index) => found.set(entry, left[index]));
  return entries.map((entry) => ({ ...entry, receipt: found.get(entry) }));
}

function isOpen(entry, event) {
  return entry.kind === "turn" && entry.open && entry.parent === (event.parentToolCallId ?? null);
}

function inTurn(entries, event, changes) {
  const index = entries.findLastIndex((entry) => isOpen(entry, event));
  const parent = event.parentToolCallId ?? null;
  const turn =
    index < 0
      ? { kind: "turn", messageIds: [], text: "", thought: false, calls: [], step: null, subagent: parent !== null, parent, open: true }
      : entries[index];
  const changed = { ...turn, ...changes(turn) };
  return index < 0 ? [...entries, changed] : entries.with(index, changed);
}

function seen(turn, messageId) {
  return turn.messageIds.includes(messageId) ? turn.messageIds : [...turn.messageIds, messageId];
}

function answered(turn, event) {
  if (!turn.calls.some(({ id }) => id === event.toolCallId)) return turn;
  const result = { result: event.result, isError: event.isError };
  return { ...turn, calls: turn.calls.map((call) => (call.id === event.toolCallId ? { ...call, ...result } : call)) };
}

function ended(entries, event) {
  const last = entries.at(-1);
  if (last?.kind === "ended") return [...entries.slice(0, -1), { ...last, finishReason: event.finishReason }];
  return [...entries, { kind: "ended", error: null, finishReason: event.finishReason }];
}

function noteOf(event) {
  switch (event.type) {
    case "queued":
      return `Waits in the queue at place ${event.position}`;
    case "user_message":
      return `Heard a message: ${event.content.slice(0, 200)}`;
    case "permission_request":
      return `Asks whether it may use ${event.toolName}`;
    case "permission_resolved":
      return `${event.decision === "allow" ? "Allowed" : "Denied"} (${event.reason})`;
    case "interrupted":
      return `${event.kind === "cancel" ? "Cancel" : "Interrupt"}: ${event.state}`;
    case "status":
      return event.phase === "compacting" ? "Sums up what was said for the model" : null;
    default:
      return null;
  }
}
