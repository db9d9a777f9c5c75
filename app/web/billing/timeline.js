// The timeline of a run: its events, with the receipt of each turn.

/** @import { ComponentChildren } from "../vendor/preact.js" */
/** @import { ToolItem } from "../runs/run_state.js" */
/** @import { TimelineEntry, TurnEntry } from "./timeline_entries.js" */

import { html, useEffect, useState } from "../html.js";
import { formatMoney, fromCredits } from "../money.js";
import { duration, formatTime } from "../parts/format.js";
import { followRun } from "../runs/event_stream.js";
import { RunState } from "../runs/run_state.js";
import { timelineEntries } from "./timeline_entries.js";
import { marksTime, spansOf } from "./trace/spans.js";
import { Waterfall } from "./trace/waterfall.js";

const MAX_CHARS = 280;

/** @typedef {{state: RunState, events: ClientEvent[], isLost: boolean}} Followed `events` are those that mark time */

/** @param {{run: Schemas["RunResponse"], receipts: Receipt[]}} props */
export function Timeline({ run, receipts }) {
  const [{ state, events, isLost }, setState] = useState(
    /** @type {Followed} */ ({ state: new RunState(run.runId), events: [], isLost: false }),
  );
  useEffect(() => follow(run.runId, setState), [run.runId]);
  const entries = timelineEntries(state, receipts, MAX_CHARS);
  const last = events.at(-1);
  return html`
    ${
      last &&
      html`<${Waterfall}
        spans=${spansOf(events, run.createdAt)}
        since=${run.createdAt}
        until=${state.done ? last.at : new Date().toISOString()}
      />`
    }
    <section class="card" aria-labelledby="timeline-title">
      <h2 id="timeline-title">Timeline</h2>
      ${isLost && html`<p class="notice notice-bad" role="alert">The connection was lost; the timeline may be incomplete.</p>`}
      ${!state.done && !isLost && html`<p class="hint" role="status">Following the run…</p>`}
      <ol class="timeline" aria-label="Timeline">
        <${Mark} at=${run.createdAt} since=${run.createdAt}>Accepted<//>
        ${entries.map((entry) => html`<${Entry} entry=${entry} run=${run} />`)}
      </ol>
    </section>
  `;
}

/**
 * Apply the run's events as they arrive; those of an ended run arrive at once.
 * @param {string} runId
 * @param {(followed: Followed) => void} setState
 */
function follow(runId, setState) {
  const state = new RunState(runId);
  /** @type {ClientEvent[]} */
  const events = [];
  let isLost = false;
  let frame = 0;
  const redraw = () => {
    // Once per animation frame, however fast events arrive.
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      setState({ state, events, isLost });
    });
  };
  const setLost = (/** @type {boolean} */ lost) => {
    isLost = lost;
    redraw();
  };
  const stop = followRun(runId, {
    onEvent: (event) => {
      state.apply(event);
      if (marksTime(event)) events.push(event);
      redraw();
    },
    onConnection: setLost,
    onFailure: () => setLost(true),
  });
  return () => {
    stop();
    cancelAnimationFrame(frame);
  };
}

/** @param {{at?: string | null, since: string, tone?: string, children: ComponentChildren}} props */
function Mark({ at, since, tone = "", children }) {
  return html`
    <li class=${tone}>
      <span class="when">${at && html`<time datetime=${at} title=${formatTime(at)}>+${duration(since, at)}</time>`}</span>
      <div class="what">${children}</div>
    </li>
  `;
}

/** @param {{entry: TimelineEntry, run: Schemas["RunResponse"]}} props */
function Entry({ entry, run }) {
  const since = run.createdAt;
  switch (entry.kind) {
    case "started":
      return html`<${Mark} at=${entry.attempt === 0 ? run.startedAt : null} since=${since}>
        Started${entry.attempt > 0 ? ` again, attempt ${entry.attempt + 1}` : ""} with ${entry.model}
      <//>`;
    case "turn":
      return html`<${Mark} at=${entry.receipt?.createdAt} since=${since}><${Turn} turn=${entry} /><//>`;
    case "ended":
      return html`<${Mark} at=${run.endedAt} since=${since} tone=${entry.error ? "bad" : "good"}>
        ${entry.error ? html`Ended with <code>${entry.error}</code>` : "Succeeded"} (${entry.finishReason})
      <//>`;
    default:
      return html`<${Mark} since=${since}>${entry.text}<//>`;
  }
}

/** @param {{turn: TurnEntry}} props */
function Turn({ turn }) {
  const { receipt } = turn;
  return html`
    <p class="turn-head">
      ${turn.isSubagent ? "Subagent" : turn.step === null ? "Message" : `Step ${turn.step}`}
      ${receipt && html` <span class="hint">${formatMoney(fromCredits(receipt.chargedCredits))} · ${receipt.model}</span>`}
    </p>
    ${turn.hasReasoning && html`<p class="hint">With reasoning.</p>`}
    ${turn.text !== "" && html`<p class="message-text">${turn.text}</p>`}
    ${turn.calls.map((call) => html`<${Call} call=${call} />`)}
  `;
}

/** @param {{call: ToolItem}} props */
function Call({ call }) {
  const state = !call.ended ? "no result" : call.isError ? "failed" : "succeeded";
  return html`
    <details class="call">
      <summary><code>${call.name}</code> <span class=${`badge badge-${state === "no result" ? "none" : state}`}>${state}</span></summary>
      <p class="hint">Arguments</p>
      <pre>${JSON.stringify(call.args, null, 2)}</pre>
      ${call.ended && html`<p class="hint">Result, as visible to clients</p><pre>${JSON.stringify(call.result, null, 2)}</pre>`}
    </details>
  `;
}
