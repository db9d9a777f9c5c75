// A conversation: what was said in it, and what can be done with it.

import { get, post, remove } from "../api.js";
import { follow } from "../stream.js";
import { total } from "./cost.js";
import { Run } from "./run.js";
import { apiProblem } from "./words.js";

const RECEIPTS_MS = 1200;

/**
 * `turns` are `{runId, question, run, graphId, costUsd, sent}`: what was asked and the run that answers.
 * Every change calls `changed()`, every end of a run `ended(turn)`.
 */
export class Conversation {
  constructor(key, { changed, ended }) {
    this.key = key;
    this.title = null;
    this.forkedFrom = null;
    this.turns = [];
    this.loading = false;
    this.problem = null;
    this.lost = false;
    this._changed = changed;
    this._path = `v1/sessions/${encodeURIComponent(key)}`;
    this._ended = ended;
    this._leave = new Map();
    this._closed = false;
  }

  /** The turns whose run has not ended, oldest first. */
  get open() {
    return this.turns.filter((turn) => turn.run && !turn.run.done);
  }

  /** What all of it cost; null where that is not known. */
  get costUsd() {
    return this.turns.length ? total(this.turns.map((turn) => turn.costUsd)) : null;
  }

  /** Read what was said so far, and listen to what is still being said. */
  async load() {
    this.loading = true;
    this._changed();
    try {
      const found = await whole(this._path);
      this.title = found.title;
      this.forkedFrom = found.forkedFrom;
      this.turns = turnsOf(found.messages);
      for (const turn of this.open) this._follow(turn);
    } catch (error) {
      this.problem = apiProblem(error);
    }
    this.loading = false;
    this._changed();
  }

  /** Stop listening. */
  close() {
    this._closed = true;
    for (const leave of this._leave.values()) leave();
    this._leave.clear();
  }

  /** Ask something: a new run, or a message to the one at work. Raises `ApiError`. */
  async send(text, graphId) {
    const busy = this.open.at(-1);
    if (!busy) return this._start(text, graphId);
    try {
      await this._tell(busy.run, text);
    } catch (error) {
      if (error.code !== "run_ended") throw error;
      await this._start(text, graphId);
    }
  }

  /** Stop what the agent is doing; asked a second time, end the run. */
  async stop() {
    for (const { run } of this.open) {
      const kind = run.stopping === "interrupt" ? "cancel" : "interrupt";
      const before = run.stopping;
      run.stopping = kind;
      this._changed();
      try {
        await post(`${pathOf(run)}/${kind}`);
      } catch (error) {
        run.stopping = before;
        this._changed();
        throw error;
      }
    }
  }

  /** Let a tool call go on, perhaps changed, or deny it. Raises `ApiError`. */
  async decide(run, tool, { decision, args, message }) {
    const body = { decision, ...(args && { args }), ...(message && { message }) };
    await post(`${pathOf(run)}/permissions/${tool.permission.requestId}`, body);
  }

  /** Read what a run's subagents did, which the conversation does not hold. */
  async unfold(turn) {
    const run = new Run(turn.runId);
    await new Promise((resolve, reject) => {
      const leave = follow(turn.runId, {
        hear: (event) => {
          run.hear(event);
          if (event.type === "done") resolve();
        },
        lost: () => {},
        failed: reject,
      });
      this._leave.set(`unfold ${turn.runId}`, leave);
    });
    turn.run = run;
    turn.whole = true;
    this._changed();
  }

  /** A copy that knows what was said up to and with a turn; returns its key. Raises `ApiError`. */
  async fork(turn) {
    const copy = await post(`${this._path}/fork`, { at: turn.runId });
    return copy.stateKey;
  }

  /** Forget it. Raises `ApiError`. */
  async delete() {
    await remove(this._path);
  }

  async _start(text, graphId) {
    const runId = newKey();
    const turn = { runId, question: text, graphId, run: new Run(runId), costUsd: null, whole: true };
    this.turns.push(turn);
    this._changed();
    try {
      await post("v1/runs", { graphId, stateKey: this.key, runId, messages: [{ role: "user", content: text }] });
    } catch (error) {
      this.turns = this.turns.filter((other) => other !== turn);
      this._changed();
      throw error;
    }
    this.title ??= text.slice(0, 120);
    this._follow(turn);
    this._changed();
  }

  async _tell(run, text) {
    const said = run.say(text);
    this._changed();
    try {
      const { messageId } = await post(`${pathOf(run)}/messages`, { content: text });
      said.messageId = messageId;
    } catch (error) {
      run.unsay(said);
      this._changed();
      throw error;
    }
  }

  _follow(turn) {
    if (this._closed) return;
    const leave = follow(turn.runId, {
      hear: (event) => {
        turn.run.hear(event);
        if (event.type === "done") this._end(turn);
        this._changed();
      },
      lost: (lost) => {
        if (this.lost === lost) return;
        this.lost = lost;
        this._changed();
      },
      failed: (error) => {
        this.problem = apiProblem(error);
        turn.run.done = true;
        this._changed();
      },
    });
    this._leave.set(turn.runId, leave);
  }

  _end(turn) {
    this._ended(turn);
    // Receipts are in the database within a second.
    const timer = setTimeout(async () => {
      const found = await get(pathOf(turn)).catch(() => null);
      turn.costUsd = found?.billing?.costUsd ?? null;
      this._changed();
    }, RECEIPTS_MS);
    this._leave.set(turn.runId, () => clearTimeout(timer));
  }
}

/** A name nobody else has, also where the page did not come by https. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function pathOf({ runId }) {
  return `v1/runs/${encodeURIComponent(runId)}`;
}

/** A conversation with the messages of all its pages. */
async function whole(path) {
  const found = await get(path);
  for (let page = found; page.nextCursor !== null; ) {
    page = await get(`${path}?cursor=${encodeURIComponent(page.nextCursor)}`);
    found.messages.push(...page.messages);
  }
  return found;
}

/** The messages of a conversation as the API lists them -> turns. */
function turnsOf(messages) {
  const turns = [];
  let turn = null;
  for (const message of messages) {
    if (message.type === "result") {
      end(turn, message);
      continue;
    }
    const anew = turn?.runId !== message.runId;
    if (anew) {
      turn = { runId: message.runId, question: null, graphId: null, run: new Run(message.runId), costUsd: null };
      turns.push(turn);
    }
    if (message.type === "user_message" && turn.question === null && !turn.run.items.length) {
      turn.question = message.content;
    } else {
      turn.run.hearSaid(message);
    }
  }
  return turns;
}

function end(turn, result) {
  turn.graphId = result.graphId;
  turn.costUsd = result.costUsd;
  if (result.finishReason === null) {
    // Its events tell all of it again, from the first.
    turn.run = new Run(turn.runId);
    turn.whole = true;
    return;
  }
  Object.assign(turn.run, { done: true, error: result.error, finishReason: result.finishReason });
}

