// A run as a reader sees it: what its events add up to. No I/O, no DOM.

const SUMMED_UP = "What was said before was summed up for the model.";

/**
 * What a run says is a list of items:
 * `{kind: "text" | "thinking", messageId, text, open}`,
 * `{kind: "tool", id, name, args, result, isError, ended, permission, items}` (`items` are its subagent's),
 * `{kind: "user", messageId, text, heard}` (said to the agent at work), `{kind: "note", text}`.
 * `version` grows with every change of an item or of one inside it, so that only those are drawn again.
 */
export class Run {
  constructor(runId) {
    this.runId = runId;
    this.items = [];
    this.queued = null;
    this.started = false;
    this.phase = null;
    this.step = 0;
    this.stepBudget = null;
    this.inStep = true;
    this.stopping = null;
    this.error = null;
    this.finishReason = null;
    this.usage = null;
    this.done = false;
    this._tools = new Map();
    this._permissions = new Map();
  }

  /** The tool calls that wait for a person, oldest first. */
  get waiting() {
    return [...this._permissions.values()].filter((tool) => tool.permission.decision === null);
  }

  /** The text of the last message: the answer, once the run is done. */
  get answer() {
    return this.items.findLast((item) => item.kind === "text")?.text ?? "";
  }

  /** Take in one event. */
  hear(event) {
    const take = TAKE[event.type];
    if (take) take(this, event);
  }

  /** Take in one message of a conversation that is over, as the API lists it. */
  hearSaid(message) {
    const item = SAID[message.type](message);
    this._add({}, item);
    if (item.kind === "tool") this._tools.set(item.id, item);
  }

  /** Show what is being said to the agent, before it has heard it. */
  say(text) {
    return this._add({}, { kind: "user", messageId: null, text, heard: false });
  }

  /** It never got to the agent. */
  unsay(item) {
    this.items = this.items.filter((other) => other !== item);
  }

  _add(event, item) {
    const parent = this._tools.get(event.parentToolCallId);
    Object.assign(item, { version: 0, parent });
    (parent ? parent.items : this.items).push(item);
    touch(parent);
    return item;
  }

  _last(event) {
    const parent = this._tools.get(event.parentToolCallId);
    return (parent ? parent.items : this.items).at(-1);
  }

  _close(items = this.items) {
    for (const item of items) {
      if (item.open) {
        item.open = false;
        touch(item);
      }
      if (item.items) this._close(item.items);
    }
  }
}

function aTool(id, name, args) {
  return { kind: "tool", id, name, args, result: null, isError: false, ended: false, permission: null, items: [] };
}

const SAID = {
  user_message: (message) => ({ kind: "user", messageId: "", text: message.content, heard: true }),
  assistant_message: (message) => ({
    kind: "text",
    messageId: message.messageId,
    text: message.content,
    open: false,
  }),
  system_message: () => ({ kind: "note", text: SUMMED_UP }),
  tool_call: (message) => ({
    ...aTool(message.toolCallId, message.toolName, message.args),
    result: message.result,
    isError: message.isError ?? false,
    ended: true,
  }),
};

function touch(item) {
  for (let each = item; each; each = each.parent) each.version += 1;
}

function spoken(kind) {
  return (run, event) => {
    run.phase = null;
    if (!event.parentToolCallId) run.inStep = true;
    const last = run._last(event);
    if (last?.kind === kind && last.messageId === event.messageId) {
      last.text += event.delta;
      return touch(last);
    }
    if (last?.open) {
      last.open = false;
      touch(last);
    }
    run._add(event, { kind, messageId: event.messageId, text: event.delta, open: true });
  };
}

const TAKE = {
  queued: (run, event) => {
    run.queued = event.position;
  },
  run_started: (run, event) => {
    run.queued = null;
    run.started = true;
    run.attempt = event.attempt;
    if (event.attempt > 0) run._add({}, { kind: "note", text: "The server was lost. Another one goes on." });
  },
  text_delta: spoken("text"),
  thinking_delta: spoken("thinking"),
  status: (run, event) => {
    run.phase = { phase: event.phase, label: event.label };
    if (event.phase === "compacting") run._add(event, { kind: "note", text: SUMMED_UP });
  },
  step: (run, event) => {
    run.step = event.stepIndex;
    run.inStep = false;
    run.stepBudget = event.stepBudget;
  },
  tool_call_start: (run, event) => {
    const last = run._last(event);
    if (last?.open) {
      last.open = false;
      touch(last);
    }
    const tool = aTool(event.toolCallId, event.toolName, event.args);
    run._tools.set(tool.id, run._add(event, tool));
    run.phase = { phase: "tool_use", label: tool.name };
  },
  tool_call_result: (run, event) => {
    const tool = run._tools.get(event.toolCallId);
    if (!tool) return;
    Object.assign(tool, { result: event.result, isError: event.isError, ended: true });
    run._close(tool.items);
    run.phase = null;
    touch(tool);
  },
  user_message: (run, event) => {
    run._close();
    // The answer that gives our message its id may come after this.
    const ours = (item) => item.messageId === event.messageId || (!item.messageId && item.text === event.content);
    const sent = run.items.find((item) => item.kind === "user" && !item.heard && ours(item));
    if (sent) {
      // It stands where it was heard, not where it was sent.
      run.items = [...run.items.filter((item) => item !== sent), sent];
      sent.heard = true;
      touch(sent);
    } else {
      run._add({}, { kind: "user", messageId: event.messageId, text: event.content, heard: true });
    }
  },
  permission_request: (run, event) => {
    const tool = run._tools.get(event.toolCallId);
    if (!tool) return;
    tool.permission = {
      requestId: event.requestId,
      args: event.args,
      expiresAt: event.expiresAt,
      decision: null,
      reason: null,
      changed: false,
    };
    run._permissions.set(event.requestId, tool);
    touch(tool);
  },
  permission_resolved: (run, event) => {
    const tool = run._permissions.get(event.requestId);
    if (!tool) return;
    Object.assign(tool.permission, { decision: event.decision, reason: event.reason });
    if (event.args !== undefined) {
      tool.args = event.args;
      tool.permission.changed = true;
    }
    touch(tool);
  },
  interrupted: (run, event) => {
    run.stopping = event.state === "stopped" ? null : event.kind;
    if (event.state === "stopped" && event.kind === "interrupt") run._close();
  },
  assistant_final: (run, event) => {
    if (event.structuredOutput !== null) {
      const text = "```json\n" + JSON.stringify(event.structuredOutput, null, 2) + "\n```";
      run._add({}, { kind: "text", messageId: "structured", text, open: false });
    } else if (event.content && !run.items.some((item) => item.kind === "text")) {
      run._add({}, { kind: "text", messageId: "final", text: event.content, open: false });
    }
  },
  error: (run, event) => {
    run.error = event.error;
  },
  done: (run, event) => {
    run._close();
    Object.assign(run, {
      done: true,
      queued: null,
      phase: null,
      stopping: null,
      usage: event.usage,
      finishReason: event.finishReason,
    });
  },
};
