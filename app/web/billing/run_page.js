// The page of one run: status, meters, timeline and receipts.

/** @import { Session } from "../shell.js" */
/** @import { View } from "./view.js" */

import { apiPath } from "../api.js";
import { Waiting } from "../approvals/waiting.js";
import { html } from "../html.js";
import { formatExact, formatMoney, parseDollars } from "../money.js";
import { count, countOf, duration, formatTime } from "../parts/format.js";
import { loaded, useRequests } from "../parts/requests.js";
import { idOf } from "../parts/table.js";
import { REPEATS, RunAgain } from "../runs/again.js";
import { linkToComparison, linkToRuns } from "../runs/links.js";
import { ReceiptTable } from "./receipts.js";
import { RunReconciliation } from "./reconciliation.js";
import { Timeline } from "./timeline.js";
import { Attempts } from "./trace/attempts.js";
import { Prompts } from "./trace/prompts.js";
import { linkTo } from "./view.js";

const MOST_REPEATS = 5;

/** @typedef {Schemas["RunResponse"]} RunResponse */
/** @typedef {Schemas["MetersResponse"]} MetersResponse */

/** @param {{runId: string, who: Session, view: View}} props */
export function RunPage({ runId, who, view }) {
  const mayRead = who.may("runs:read");
  const run = mayRead ? apiPath("/v1/runs/{runId}", { runId }) : null;
  const repeats = mayRead ? apiPath("/v1/runs", { tag: `${REPEATS}:${runId}`, limit: MOST_REPEATS }) : null;
  const requests = useRequests([run, apiPath("/v1/runs/{runId}/receipts", { runId }), repeats], null);
  return html`
    <main id="main" class="page billing" tabindex="-1">
      <p><a href=${linkTo({ ...view, run: "" })}>← All of billing</a></p>
      <div class="head">
        <h1>Run <code class="run-id">${runId}</code></h1>
        <p class="hint">Times are UTC.</p>
      </div>
      ${loaded(requests, {
        what: "this run",
        show: ([found, receipts, repeated]) => html`
          ${
            found === null
              ? html`<p class="notice notice-warn">
                This API key lacks the scope <code>runs:read</code>: only its charges are shown.
              </p>`
              : html`
                <${Facts} run=${found} repeats=${repeated?.items ?? []} />
                ${who.may("runs:write") && html`<${RunAgain} run=${found} done=${requests.retry} />`}
                ${found.endedAt === null && html`<${Waiting} who=${who} filters=${{ runId }} />`}
                ${found.billing && html`<${Meters} billing=${found.billing} />`}
                <${RunReconciliation} runId=${runId} />
                ${
                  found.contentsDeletedAt
                    ? html`<p class="notice">Its contents were deleted at ${formatTime(found.contentsDeletedAt)}: there is no timeline any more.</p>`
                    : html`<${Timeline} run=${found} receipts=${receipts.items} />`
                }
                <${Prompts} run=${found} who=${who} />
                ${who.may("admin") && html`<${Attempts} run=${found} />`}
              `
          }
          <section class="card" aria-labelledby="charged-title">
            <h2 id="charged-title">What each message was charged</h2>
            ${
              receipts.items.length === 0
                ? html`<p class="empty">Nothing was charged.</p>`
                : html`<${Added} receipts=${receipts.items} billing=${found?.billing ?? null} /><${ReceiptTable} receipts=${receipts.items} caption="Receipts of this run, oldest first" ofRun />`
            }
          </section>
        `,
      })}
    </main>
  `;
}

/** @param {{run: RunResponse, repeats: RunResponse[]}} props */
function Facts({ run, repeats }) {
  const first = run.tags?.[REPEATS];
  const facts = [
    ["Status", html`<span class=${`badge badge-${run.status}`}>${run.status}</span> ${ending(run)}`],
    ["Graph", run.graphId],
    ["Model", run.model],
    ["Cost", run.billing && costOf(run.billing)],
    ["Accepted", html`<time datetime=${run.createdAt}>${formatTime(run.createdAt)}</time>`],
    ["Waited", run.startedAt && duration(run.createdAt, run.startedAt)],
    ["Ran", run.startedAt && run.endedAt && duration(run.startedAt, run.endedAt)],
    ["Conversation", run.stateKey],
    ["Repeats", first && html`<${Compared} href=${linkToComparison(first, run.runId)} view=${first} />`],
    [
      "Repeated by",
      repeats.length > 0 &&
        html`${repeats.map(({ runId }) => html`<${Compared} href=${linkToComparison(run.runId, runId)} view=${runId} /> `)}
          ${repeats.length === MOST_REPEATS && html`<a href=${linkToRuns({ tag: `${REPEATS}:${run.runId}` })}>and others</a>`}`,
    ],
    ["Attempt", run.attempt > 0 && count(run.attempt + 1)],
  ];
  return html`
    <dl class="card facts">
      ${facts.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
    </dl>
  `;
}

/** Another run, and what differs. @param {{view: string, href: string}} props */
function Compared({ view, href }) {
  return html`<div>${idOf(view, linkTo({ run: view }))} <a href=${href}>compare</a></div>`;
}

/**
 * The receipts added up again, compared with the sum that the run says.
 * @param {{receipts: Receipt[], billing: Schemas["RunBillingResponse"] | null}} props
 */
function Added({ receipts, billing }) {
  const cost = receipts.reduce((sum, { costUsd }) => sum + parseDollars(costUsd), 0n);
  if (billing === null) return html`<p class="hint">Together ${formatExact(cost)} at the provider’s prices.</p>`;
  const said = parseDollars(billing.costUsd);
  return said === cost
    ? html`<p class="hint">Added up again they are ${formatExact(cost)}, as the run says.</p>`
    : html`<p class="problem">Added up again they are ${formatExact(cost)}, but the run says ${formatExact(said)}.</p>`;
}

/** @param {Schemas["RunBillingResponse"]} billing */
function costOf({ costUsd, receipts }) {
  const cost = parseDollars(costUsd);
  return html`<span title=${formatExact(cost)}>${formatMoney(cost)}</span>, ${countOf(receipts, "message")}`;
}

/** @param {RunResponse} run */
function ending(run) {
  if (!run.final?.error) return "";
  return run.final.error === run.final.finishReason
    ? run.final.error
    : `${run.final.error} (${run.final.finishReason})`;
}

/** @param {{billing: Schemas["RunBillingResponse"]}} props */
function Meters({ billing: { meters, drift: counted, costComparison } }) {
  const drift = counted ?? 0;
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
            ${costComparison && html`<${Costs} compared=${costComparison} />`}
          `
      }
    </section>
  `;
}

/** @param {MetersResponse} meters @param {number} drift */
function verdict({ sdk, gateway }, drift) {
  if (drift > 0)
    return `They disagreed on ${countOf(drift, "message")}. What the gateway saw was charged; the server’s log has both numbers.`;
  if (gateway === 0 && sdk > 0) return "Without the gateway, with the machine’s own login, the SDK is the only meter.";
  if (gateway > sdk)
    return `They agree. ${countOf(gateway - sdk, "call")} of the gateway’s the SDK did not report; they are charged as “hidden”.`;
  return "They agree on every message.";
}

/** @param {{compared: Schemas["CostComparisonResponse"]}} props */
function Costs({ compared: { measuredUsd, sdkUsd, explainedUsd, driftUsd, notes } }) {
  if (sdkUsd === null || driftUsd === null)
    return html`<p class="hint">Their costs cannot be compared: ${notes.join("; ")}.</p>`;
  const [measured, sdk, explained, drift] = [measuredUsd, sdkUsd, explainedUsd, driftUsd].map(parseDollars);
  return html`
    <dl class="meters costs">
      <div><dt>Cost by the SDK</dt><dd>${formatExact(sdk)}</dd></div>
      <div><dt>Measured, at list prices</dt><dd>${formatExact(measured)}</dd></div>
      ${explained !== 0n && html`<div><dt>The SDK does not count</dt><dd>${formatExact(explained)}</dd></div>`}
      <div class=${drift === 0n ? "" : "drifted"}><dt>Difference</dt><dd>${formatExact(drift)}</dd></div>
    </dl>
    <p class=${drift === 0n ? "hint" : "problem"}>
      ${drift === 0n ? "They agree on the cost." : "They disagree on the cost; what was measured is charged."}
      ${notes.length > 0 && ` The SDK does not count: ${notes.join("; ")}.`}
    </p>
  `;
}
