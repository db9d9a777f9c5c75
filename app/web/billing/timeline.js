// What happened in a run, in order: from its events, with the receipt of each turn.

import { html, useEffect, useState } from "../html.js";
import { money, ofCredits } from "../money.js";
import { follow } from "../stream.js";
import { lasted, moment } from "./figures.js";
import { fold, withReceipts } from "./story.js";

const SHOWN_CHARS = 280;

export function Timeline({ run, receipts }) {
  const [state, setState] = useState({ entries: [], ended: false, lost: false });
  useEffect(() => read(run.runId, setState), [run.runId]);
  const entries = withReceipts(state.entries, receipts);
  return html`
    <section class="card" aria-labelledby="timeline-title">
      <h2 id="timeline-title">Timeline</h2>
      ${state.lost && html`<p class="notice notice-bad" role="alert">The connection was lost; the timeline may not be whole.</p>`}
      ${!state.ended && !state.lost && html`<p class="hint" role="status">Following the run…</p>`}
      <ol class="timeline" aria-label="Timeline">
        <${Mark} at=${run.createdAt} since=${run.createdAt}>Accepted<//>
        ${entries.map((entry) => html`<${Entry} entry=${entry} run=${run} />`)}
      </ol>
      <p class="hint">
        Events carry no times: what is known is when the run began and ended, and when each message was charged.
      </p>
    </section>
  `;
}

/** Fold the run's events as they come; all at once for one that has ended. */
function read(runId, setState) {
  const state = { entries: [], ended: false, lost: false };
  let drawing = 0;
  const changed = (changes) => {
    Object.assign(state, changes);
    // As often as the screen is drawn, however fast events come.
    drawing ||= requestAnimationFrame(() => {
      drawing = 0;
      setState({ ...state });
    });
  };
  const leave = follow(runId, {
    hear: (event) => changed({ entries: fold(state.entries, event), ended: event.type === "done" }),
    lost: (lost) => changed({ lost }),
    failed: () => changed({ lost: true }),
  });
  return () => {
    leave();
    cancelAnimationFrame(drawing);
  };
}

function Mark({ at, since, tone = "", children }) {
  return html`
    <li class=${tone}>
      <span class="when">${at && html`<time datetime=${at} title=${moment(at)}>+${lasted(since, at)}</time>`}</span>
      <div class="what">${children}</div>
    </li>
  `;
}

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

function Turn({ turn }) {
  const { receipt } = turn;
  return html`
    <p class="turn-head">
      ${turn.subagent ? "Subagent" : turn.step === null ? "Message" : `Step ${turn.step}`}
      ${receipt && html` <span class="hint">${money(ofCredits(receipt.chargedCredits))} · ${receipt.model}</span>`}
    </p>
    ${turn.thought && html`<p class="hint">Thought before it spoke.</p>`}
    ${turn.text !== "" && html`<p class="said">${cut(turn.text)}</p>`}
    ${turn.calls.map((call) => html`<${Call} call=${call} />`)}
  `;
}

function Call({ call }) {
  const state = call.result === undefined ? "no result" : call.isError ? "failed" : "succeeded";
  return html`
    <details class="call">
      <summary><code>${call.toolName}</code> <span class=${`badge badge-${state === "no result" ? "none" : state}`}>${state}</span></summary>
      <p class="hint">Arguments</p>
      <pre>${JSON.stringify(call.args, null, 2)}</pre>
      ${call.result !== undefined && html`<p class="hint">Result, as far as clients may see it</p><pre>${JSON.stringify(call.result, null, 2)}</pre>`}
    </details>
  `;
}

function cut(text) {
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text;
}
