// RunState: the state of a run, computed from its events. No I/O, no DOM.

import { t, tIfKnown } from "../languages.js";

const WEB = /^https?:\/\//i;
const COMPACTED = t("note-compacted");
const BUDGET_REACHED = t("note-budget");
/** Why questions have no answer, by the error of their call. @type {Record<string, QuestionEntry["resolvedBy"]>} */
const UNANSWERED = { policy_denied: "declined", timeout: "expired" };

/**
 * @typedef {object} Permission
 * @property {string} requestId
 * @property {unknown} args
 * @property {string} expiresAt
 * @property {boolean} grantable whether later calls may be allowed, too
 * @property {Schemas["PermissionResolved"]["decision"] | null} decision
 * @property {string | null} reason
 * @property {boolean} changed whether a person has changed the arguments
 */

/**
 * `version` grows with every change of an item or of one inside it, so that only changed items are drawn again.
 * @typedef {{version?: number, parent?: ToolItem}} Common
 * @typedef {Common & {kind: "text" | "thinking", messageId: string, text: string, open: boolean}} TextItem
 * @typedef {Common & {kind: "user", messageId: string | null, text: string, delivered: boolean, attachments?: string[]}} UserItem
 * @typedef {Common & {kind: "note", text: string}} NoteItem
 * @typedef {Common & {
 *   kind: "tool", id: string, name: string, args: unknown, result: unknown, isError: boolean, ended: boolean,
 *   permission: Permission | null, items: Item[],
 * }} ToolItem `items` are those of the subagent that the call has started
 * @typedef {Common & {
 *   kind: "question", requestId: string, source: string, questions: Schemas["QuestionItem"][],
 *   resolvedBy: Schemas["QuestionResolved"]["resolvedBy"] | null, answers: ((string[] | null)[]) | null,
 * }} QuestionEntry
 * @typedef {TextItem | UserItem | NoteItem | ToolItem | QuestionEntry} Item
 */

/**
 * What one message of the model has produced. `step` is null until the turn has ended.
 * @typedef {{parent: string | null, messageIds: string[], items: Item[], step: number | null, open: boolean}} Turn
 */

/**
 * The history of a run: its turns, and the events that do not belong to a turn.
 * @typedef {{kind: "turn", turn: Turn} | {kind: "event", event: ClientEvent}} Entry
 */

/** @typedef {Omit<Schemas["Status"], "at">} Activity */
/** @typedef {Schemas["ConversationMessageResponse"]} StoredMessage a message of a conversation, as the API lists it */

export class RunState {
  /** @param {string} runId */
  constructor(runId) {
    this.runId = runId;
    /** @type {Item[]} */
    this.items = [];
    /** @type {Entry[]} */
    this.entries = [];
    /** @type {Map<string, string>} the pages that it cites: their titles by address */
    this.sources = new Map();
    /** @type {Schemas["FilesChanged"] | null} */
    this.fileChanges = null;
    /** @type {number | null} */
    this.queuePosition = null;
    this.started = false;
    /** @type {Activity | null} */
    this.status = null;
    this.step = 0;
    /** @type {number | null} */
    this.stepBudget = null;
    this.inStep = true;
    /** @type {"interrupt" | "cancel" | null} */
    this.stopping = null;
    /** @type {string | null} */
    this.error = null;
    /** @type {string | null} */
    this.finishReason = null;
    this.done = false;
    /** @type {Map<string, ToolItem>} */
    this._tools = new Map();
    /** @type {Map<string, ToolItem>} */
    this._permissions = new Map();
    /** @type {Map<string, QuestionEntry>} */
    this._questions = new Map();
    /** @type {Map<string | null, Turn>} the open turn of the agent (null) and of each subagent */
    this._openTurns = new Map();
  }

  /** The tool calls that wait for a person, oldest first. */
  get pendingApprovals() {
    return [...this._permissions.values()].filter((tool) => tool.permission?.decision === null);
  }

  /** The questions that wait for a person, oldest first. */
  get pendingQuestions() {
    return [...this._questions.values()].filter((entry) => entry.resolvedBy === null);
  }

  /** The text of the last message: the answer, once the run is done. */
  get answer() {
    const last = this.items.findLast((item) => item.kind === "text");
    return last?.kind === "text" ? last.text : "";
  }

  /** @param {ClientEvent} event */
  apply(event) {
    const handle = /** @type {((run: RunState, event: ClientEvent) => void) | undefined} */ (HANDLERS[event.type]);
    handle?.(this, event);
  }

  /**
   * Add a message of an ended run.
   * @param {StoredMessage} message
   */
  addStoredMessage(message) {
    const item = ITEM_OF_MESSAGE[message.type](message);
    this._add(null, item);
    if (item.kind === "tool") this._tools.set(item.id, item);
    for (const citation of message.citations ?? []) this.addSource(citation);
  }

  /** @param {{url: string, title?: string | null}} citation */
  addSource({ url, title }) {
    if (WEB.test(url) && URL.canParse(url)) this.sources.set(url, title || url);
  }

  /**
   * Show a message that is being sent to the agent, before it is delivered.
   * @param {string} text
   * @param {string[]} [attachments] names
   * @returns {UserItem}
   */
  addPendingMessage(text, attachments) {
    /** @type {UserItem} */
    const item = { kind: "user", messageId: null, text, delivered: false, attachments };
    this._add(null, item);
    return item;
  }

  /**
   * Remove a message that could not be sent.
   * @param {UserItem} item
   */
  removePendingMessage(item) {
    this._keep(null, (other) => other !== item);
  }

  /**
   * Show only those items of the agent or of a subagent.
   * @param {string | null | undefined} parentId
   * @param {(item: Item) => boolean} isKept
   */
  _keep(parentId, isKept) {
    const parent = parentId ? this._tools.get(parentId) : undefined;
    const within = parent ?? this;
    within.items = within.items.filter(isKept);
    touch(parent);
  }

  /**
   * @param {string | null | undefined} parentId the tool call whose subagent produced the item
   * @param {Item} item
   */
  _add(parentId, item) {
    const parent = parentId ? this._tools.get(parentId) : undefined;
    Object.assign(item, { version: 0, parent });
    (parent ? parent.items : this.items).push(item);
    touch(parent);
  }

  /**
   * Add an item that the model has produced to its turn, too.
   * @param {ClientEvent} event
   * @param {Item} item
   */
  _addToTurn(event, item) {
    this._add(event.parentToolCallId, item);
    this._turn(event).items.push(item);
  }

  /** @param {ClientEvent} event */
  _last(event) {
    const parent = event.parentToolCallId ? this._tools.get(event.parentToolCallId) : undefined;
    return (parent ? parent.items : this.items).at(-1);
  }

  /**
   * @param {ClientEvent} event
   * @returns {Turn}
   */
  _turn(event) {
    const parent = event.parentToolCallId ?? null;
    let turn = this._openTurns.get(parent);
    if (turn === undefined) {
      turn = { parent, messageIds: [], items: [], step: null, open: true };
      this._openTurns.set(parent, turn);
      this.entries.push({ kind: "turn", turn });
    }
    return turn;
  }

  /** @param {Item[]} items */
  _close(items = this.items) {
    for (const item of items) {
      closeText(item);
      if (item.kind === "tool") this._close(item.items);
    }
  }
}

/** @returns {ToolItem} */
function toolItem(/** @type {string} */ id, /** @type {string} */ name, /** @type {unknown} */ args) {
  return { kind: "tool", id, name, args, result: null, isError: false, ended: false, permission: null, items: [] };
}

/** @type {Record<StoredMessage["type"], (message: StoredMessage) => Item>} */
const ITEM_OF_MESSAGE = {
  user_message: ({ content }) => ({ kind: "user", messageId: "", text: content ?? "", delivered: true }),
  assistant_message: ({ content, messageId }) => ({
    kind: "text",
    messageId: messageId ?? "",
    text: content ?? "",
    open: false,
  }),
  system_message: () => ({ kind: "note", text: COMPACTED }),
  tool_call: (message) =>
    storedQuestion(message) ?? {
      ...toolItem(message.toolCallId ?? "", message.toolName ?? "", message.args),
      result: message.result,
      isError: message.isError ?? false,
      ended: true,
    },
};

/**
 * What the agent has asked, and the answers; null if the call is something else.
 * @param {StoredMessage} message
 * @returns {QuestionEntry | null}
 */
function storedQuestion({ toolName, toolCallId, args, result }) {
  if (toolName !== "AskUserQuestion") return null;
  const { questions } = /** @type {{questions: Schemas["QuestionItem"][]}} */ (args);
  const { answers: given, error } = /** @type {{answers?: Record<string, string>, error?: string}} */ (result ?? {});
  const resolvedBy = given ? "answered" : UNANSWERED[error ?? ""];
  if (!resolvedBy) return null;
  const answers = given ? questions.map(({ question }) => [given[question] ?? ""]) : null;
  return { kind: "question", requestId: toolCallId ?? "", source: "agent", questions, resolvedBy, answers };
}

/** A sentence, and the names that it is about. @param {Schemas["RunWarning"]} event */
export function warningOf({ code, message, names }) {
  const about = names.join(", ");
  return tIfKnown(`warning-${code}`, { message, names: about }) ?? [message, about].filter(Boolean).join(" ");
}

/** @param {Item | undefined} item */
function touch(item) {
  for (let each = item; each; each = each.parent) each.version = (each.version ?? 0) + 1;
}

/** @param {Item | undefined} item */
function closeText(item) {
  if ((item?.kind !== "text" && item?.kind !== "thinking") || !item.open) return;
  item.open = false;
  touch(item);
}

/**
 * @param {RunState} run
 * @param {Schemas["TextDelta"] | Schemas["ThinkingDelta"]} event
 */
function addDelta(run, event) {
  const kind = event.type === "text_delta" ? "text" : "thinking";
  run.status = null;
  if (!event.parentToolCallId) run.inStep = true;
  const turn = run._turn(event);
  if (!turn.messageIds.includes(event.messageId)) turn.messageIds.push(event.messageId);
  const last = run._last(event);
  if (last?.kind === kind && last.messageId === event.messageId) {
    last.text += event.delta;
    touch(last);
    return;
  }
  closeText(last);
  run._addToTurn(event, { kind, messageId: event.messageId, text: event.delta, open: true });
}

/**
 * @param {RunState} run
 * @param {ClientEvent} event
 */
function addEntry(run, event) {
  run.entries.push({ kind: "event", event });
}

/** One handler for each type of event; the type checker rejects a missing one.
 * @type {{[Type in ClientEvent["type"]]: (run: RunState, event: Extract<ClientEvent, {type: Type}>) => void}} */
const HANDLERS = {
  queued(run, event) {
    run.queuePosition = event.position;
    addEntry(run, event);
  },
  run_started(run, event) {
    run.queuePosition = null;
    run.started = true;
    run._openTurns.clear();
    // A later attempt asks anew.
    for (const entry of run.pendingQuestions) entry.resolvedBy = "run_stopped";
    addEntry(run, event);
    if (event.attempt > 0) run._add(null, { kind: "note", text: t("note-resumed") });
  },
  warning(run, event) {
    run._add(null, { kind: "note", text: warningOf(event) });
    addEntry(run, event);
  },
  // The call itself is shown; it has its result when another client has executed it.
  client_tool_call: addEntry,
  text_delta: addDelta,
  thinking_delta: addDelta,
  message_discarded(run, event) {
    /** @param {Item} item */
    const isKept = (item) => (item.kind !== "text" && item.kind !== "thinking") || item.messageId !== event.messageId;
    const turn = run._turn(event);
    turn.items = turn.items.filter(isKept);
    run._keep(event.parentToolCallId, isKept);
  },
  status(run, event) {
    run.status = event;
    if (event.phase !== "compacting") return;
    run._add(event.parentToolCallId, { kind: "note", text: COMPACTED });
    addEntry(run, event);
  },
  step(run, event) {
    run.step = event.stepIndex;
    run.inStep = false;
    run.stepBudget = event.stepBudget;
    const parent = event.parentToolCallId ?? null;
    const turn = run._openTurns.get(parent);
    if (turn) Object.assign(turn, { open: false, step: event.stepIndex });
    run._openTurns.delete(parent);
  },
  tool_call_start(run, event) {
    closeText(run._last(event));
    const tool = toolItem(event.toolCallId, event.toolName, event.args);
    run._tools.set(tool.id, tool);
    run._addToTurn(event, tool);
    run.status = { type: "status", phase: "tool_use", label: tool.name };
  },
  tool_call_result(run, event) {
    const tool = run._tools.get(event.toolCallId);
    if (!tool) return;
    Object.assign(tool, { result: event.result, isError: event.isError, ended: true });
    run._close(tool.items);
    run.status = null;
    touch(tool);
  },
  citation(run, event) {
    run.addSource(event);
  },
  files_changed(run, event) {
    run.fileChanges = event;
    addEntry(run, event);
  },
  user_message(run, event) {
    run._close();
    addEntry(run, event);
    // The response with our message's id may arrive after this event.
    /** @param {UserItem} item */
    const isSame = (item) => item.messageId === event.messageId || (!item.messageId && item.text === event.content);
    const pending = run.items.find((item) => item.kind === "user" && !item.delivered && isSame(item));
    if (pending?.kind === "user") {
      // Shown where it was delivered, not where it was sent.
      run.items = [...run.items.filter((item) => item !== pending), pending];
      pending.delivered = true;
      touch(pending);
    } else {
      run._add(null, { kind: "user", messageId: event.messageId, text: event.content, delivered: true });
    }
  },
  permission_request(run, event) {
    addEntry(run, event);
    const tool = run._tools.get(event.toolCallId);
    if (!tool) return;
    const { requestId, args, expiresAt, grantable = false } = event;
    tool.permission = { requestId, args, expiresAt, grantable, decision: null, reason: null, changed: false };
    run._permissions.set(requestId, tool);
    touch(tool);
  },
  budget_reached(run, event) {
    addEntry(run, event);
    run._add(event.parentToolCallId, { kind: "note", text: BUDGET_REACHED });
  },
  permission_resolved(run, event) {
    addEntry(run, event);
    const tool = run._permissions.get(event.requestId);
    if (!tool?.permission) return;
    Object.assign(tool.permission, { decision: event.decision, reason: event.reason });
    if (event.args !== undefined) {
      tool.args = event.args;
      tool.permission.changed = true;
    }
    touch(tool);
  },
  question(run, event) {
    addEntry(run, event);
    const { requestId, source, questions } = event;
    /** @type {QuestionEntry} */
    const entry = { kind: "question", requestId, source, questions, resolvedBy: null, answers: null };
    run._questions.set(requestId, entry);
    closeText(run._last(event));
    // Shown instead of the call that asks.
    run._keep(event.parentToolCallId, (item) => item.kind !== "tool" || item.id !== event.toolCallId);
    run._add(event.parentToolCallId, entry);
  },
  question_resolved(run, event) {
    addEntry(run, event);
    const entry = run._questions.get(event.requestId);
    if (!entry) return;
    Object.assign(entry, { resolvedBy: event.resolvedBy, answers: event.answers ?? null });
    touch(entry);
  },
  interrupted(run, event) {
    addEntry(run, event);
    run.stopping = event.state === "stopped" ? null : event.kind;
    if (event.state === "stopped" && event.kind === "interrupt") run._close();
  },
  assistant_final(run, event) {
    if (event.structuredOutput !== null) {
      const text = `\`\`\`json\n${JSON.stringify(event.structuredOutput, null, 2)}\n\`\`\``;
      run._add(null, { kind: "text", messageId: "structured", text, open: false });
    } else if (event.content && !run.items.some((item) => item.kind === "text")) {
      run._add(null, { kind: "text", messageId: "final", text: event.content, open: false });
    }
  },
  error(run, event) {
    run.error = event.error;
  },
  done(run, event) {
    run._close();
    addEntry(run, event);
    Object.assign(run, {
      done: true,
      queuePosition: null,
      status: null,
      stopping: null,
      finishReason: event.finishReason,
    });
  },
};
