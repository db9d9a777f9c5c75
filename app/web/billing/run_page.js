// The page of one run: status, meters, timeline and receipts.

import { html } from "../html.js";
import { formatExact, formatMoney, parseDollars } from "../money.js";
import { count, countOf, duration, formatTime } from "./format.js";
import { ReceiptTable } from "./receipts.js";
import { Loaded, useRequests } from "./requests.js";
import { Timeline } from "./timeline.js";
import { linkTo } from "./view.js";

export function RunPage({ runId, who, view }) {
  const path = `v1/runs/${encodeURIComponent(runId)}`;
  const mayRead = who.may("runs:read");
  const requests = useRequests([mayRead ? path : null, `${path}/receipts`]);
  return html`
    <main id="main" class="page billing" tabindex="-1">
      <p><a href=${linkTo({ ...view, run: "" })}>← All of billing</a></p>
      <div class="head">
        <h1>Run <code class="run-id">${runId}</code></h1>
        <p class="hint">Times are UTC.</p>
      </div>
      <${Loaded}
        of=${requests}
        what="this run"
        show=${([run, receipts]) => html`
          ${
            run === null
              ? html`<p class="notice notice-warn">
                This API key lacks the scope <code>runs:read</code>: only its charges are shown.
              </p>`
              : html`
                <${Facts} run=${run} />
                <${Meters} billing=${run.billing} />
                <${Timeline} run=${run} receipts=${receipts.items} />
              `
          }
          <section class="card" aria-labelledby="charged-title">
            <h2 id="charged-title">What each message was charged</h2>
            ${
              receipts.items.length === 0
                ? html`<p class="empty">Nothing was charged.</p>`
                : html`<${ReceiptTable} receipts=${receipts.items} caption="Receipts of this run, oldest first" />`
            }
          </section>
        `}
      />
    </main>
  `;
}

function Facts({ run }) {
  const cost = parseDollars(run.billing.costUsd);
  const facts = [
    ["Status", html`<span class=${`badge badge-${run.status}`}>${run.status}</span> ${ending(run)}`],
    ["Graph", run.graphId],
    ["Model", run.model],
    [
      "Cost",
      html`<span title=${formatExact(cost)}>${formatMoney(cost)}</span>, ${countOf(run.billing.receipts, "message")}`,
    ],
    ["Accepted", html`<time datetime=${run.createdAt}>${formatTime(run.createdAt)}</time>`],
    ["Waited", run.startedAt && duration(run.createdAt, run.startedAt)],
    ["Ran", run.startedAt && run.endedAt && duration(run.startedAt, run.endedAt)],
    ["Conversation", run.stateKey],
    ["Attempt", run.attempt > 0 && count(run.attempt + 1)],
  ];
  return html`
    <dl class="card facts">
      ${facts.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
    </dl>
  `;
}

function ending(run) {
  if (run.final === null || run.final.error === null) return "";
  return run.final.error === run.final.finishReason
    ? run.final.error
    : `${run.final.error} (${run.final.finishReason})`;
}

function Meters({ billing: { meters, drift } }) {
  return html`
    <section class="card" aria-labelledby="meters-title">
      <h2 id="meters-title">The two meters</h2>
      ${
        meters === null
          ? html`<p class="hint">Their counts are known once the run has ended.</p>`
          : html`
            <dl class="meters">
              <div><dt>SDK</dt><dd>${count(meters.sdk)}</dd></div>
              <div><dt>Gateway</dt><dd>${count(meters.gateway)}</dd></div>
              <div class=${drift > 0 ? "drifted" : ""}><dt>Drift</dt><dd>${count(drift)}</dd></div>
            </dl>
            <p class=${drift > 0 ? "problem" : "hint"}>${verdict(meters, drift)}</p>
          `
      }
    </section>
  `;
}

function verdict({ sdk, gateway }, drift) {
  if (drift > 0)
    return `They disagreed on ${countOf(drift, "message")}. What the gateway saw was charged; the server’s log has both numbers.`;
  if (gateway === 0 && sdk > 0) return "Without the gateway, with the machine’s own login, the SDK is the only meter.";
  if (gateway > sdk)
    return `They agree. ${countOf(gateway - sdk, "call")} of the gateway’s the SDK did not report; they are charged as “hidden”.`;
  return "They agree on every message.";
}
