// What a run did when: model calls, tools, approvals and questions, from its events. No I/O, no DOM.

const DELTAS = ["text_delta", "thinking_delta"];

/**
 * `depth` is 0 for the agent, and one more for each subagent. `state` is empty for what has succeeded.
 * @typedef {object} Span
 * @property {"queue" | "model" | "tool" | "waiting"} kind
 * @property {string} name
 * @property {string} from
 * @property {string | null} to null while it lasts
 * @property {number} depth
 * @property {"" | "failed" | "cut off"} state
 */

/** Whether an event begins or ends something. @param {ClientEvent} event */
export function marksTime(event) {
  return !DELTAS.includes(event.type);
}

/**
 * The spans in the order in which they begin. A model call begins when the model has what it needs: with the attempt, the
 * last result of the tools before, or the call that starts the subagent; it ends with its step.
 * @param {ClientEvent[]} events those that mark time, in their order
 * @param {string} acceptedAt
 * @returns {Span[]}
 */
export function spansOf(events, acceptedAt) {
  const found = new Trace(acceptedAt);
  for (const event of events) found.apply(event);
  return found.spans.toSorted((one, other) => (one.from < other.from ? -1 : Number(one.from > other.from)));
}

class Trace {
  /** @param {string} acceptedAt */
  constructor(acceptedAt) {
    /** @type {Span[]} */
    this.spans = [];
    /** @type {Map<string, Span>} those that last: tools by their call, what waits by its request */
    this.open = new Map();
    /** @type {Map<string, string>} when the model of the agent ("") or a subagent had what it needs */
    this.ready = new Map();
    /** @type {Map<string, number>} by the call that starts a subagent */
    this.depths = new Map([["", 0]]);
    this._begin("run", "queue", "Waits for a place", acceptedAt, "");
  }

  /** @param {ClientEvent} event */
  apply(event) {
    const agent = event.parentToolCallId ?? "";
    switch (event.type) {
      case "run_started":
        this._end("run", event.at);
        this._cutOff(event.at);
        this.ready = new Map([["", event.at]]);
        break;
      case "step":
        this._modelCall(agent, event.at, `Step ${event.stepIndex}`);
        break;
      case "tool_call_start":
        this._begin(event.toolCallId, "tool", event.toolName, event.at, agent);
        this.depths.set(event.toolCallId, this._depthOf(agent) + 1);
        this.ready.set(event.toolCallId, event.at);
        break;
      case "tool_call_result":
        this._end(event.toolCallId, event.at, event.isError ? "failed" : "");
        this.ready.set(agent, event.at);
        break;
      case "permission_request":
        this._begin(event.requestId, "waiting", `Approval of ${event.toolName}`, event.at, agent);
        break;
      case "budget_reached":
        this._begin(event.requestId, "waiting", "A higher budget", event.at, agent);
        break;
      case "question":
        this._begin(event.requestId, "waiting", "Answers", event.at, agent);
        break;
      case "permission_resolved":
      case "question_resolved":
        this._end(event.requestId, event.at);
        break;
      case "done":
        this._end("run", event.at);
        this._cutOff(event.at);
        break;
    }
  }

  /** @param {string} agent */
  _depthOf(agent) {
    return this.depths.get(agent) ?? 0;
  }

  /** @param {string} id @param {Span["kind"]} kind @param {string} name @param {string} at @param {string} agent */
  _begin(id, kind, name, at, agent) {
    /** @type {Span} */
    const span = { kind, name, from: at, to: null, depth: this._depthOf(agent), state: "" };
    this.open.set(id, span);
    this.spans.push(span);
  }

  /** @param {string} id @param {string} at @param {Span["state"]} state */
  _end(id, at, state = "") {
    const span = this.open.get(id);
    if (span) Object.assign(span, { to: at, state });
    this.open.delete(id);
  }

  /** @param {string} agent @param {string} at @param {string} name */
  _modelCall(agent, at, name) {
    const from = this.ready.get(agent) ?? at;
    this.spans.push({ kind: "model", name, from, to: at, depth: this._depthOf(agent), state: "" });
    this.ready.set(agent, at);
  }

  /** An attempt that ends takes with it what has not ended. @param {string} at */
  _cutOff(at) {
    for (const id of [...this.open.keys()]) this._end(id, at, "cut off");
  }
}
