// The list of receipts: filters, pages and CSV export.

/** @import { Column } from "../parts/table.js" */
/** @import { ApiWindow, Show, View } from "./view.js" */

import { apiPath, apiUrl } from "../api.js";
import { html } from "../html.js";
import { formatExact, formatFixed, fromCredits } from "../money.js";
import { count } from "../parts/format.js";
import { Pages } from "../parts/pages.js";
import { loaded } from "../parts/requests.js";
import { idOf, Table, timeOf, usePages } from "../parts/table.js";
import { Choice, Typed } from "./filters.js";
import { ReceiptDetails } from "./receipt_details.js";
import { BASES, linkTo, MISSES, ORIGINS } from "./view.js";

const PAGE = 50;

/** @typedef {(id: string) => string} KeyName */
/** @typedef {ApiWindow & {model: string, graphId: string, apiKeyId: string, endUser: string, tag: string, account: string}} PageFilters */

/** @param {{view: View, show: Show, filters: PageFilters, keyName: KeyName}} props */
export function Receipts({ view, show, filters: pageFilters, keyName }) {
  const { runId, basis, origin, miss } = view;
  const filters = { ...pageFilters, runId, basis, origin, cacheMiss: miss };
  const { page, cursors, turnTo } = usePages((cursor) => apiPath("/v1/receipts", { ...filters, limit: PAGE, cursor }));

  return html`
    <section class="card receipts" aria-labelledby="receipts-title">
      <div class="section-head">
        <h2 id="receipts-title">Receipts</h2>
        <a class="button button-small" href=${apiUrl(apiPath("/v1/receipts", { ...filters, format: "csv" }))} download="receipts.csv">
          Export as CSV
        </a>
      </div>
      <div class="filters" role="group" aria-label="Filters of receipts">
        <${Typed} label="Run id" name="runId" view=${view} show=${show} />
        <${Choice} label="Basis" all="Any" name="basis" view=${view} show=${show} values=${BASES} />
        <${Choice} label="Origin" all="Any" name="origin" view=${view} show=${show} values=${ORIGINS} />
        <${Choice} label="Cache miss" all="Any" name="miss" view=${view} show=${show} values=${MISSES} labelFor=${inWords} />
      </div>
      ${loaded(page, {
        what: "receipts",
        show: ([found]) => html`
          ${
            found.items.length === 0
              ? html`<p class="empty">No receipt matches.</p>`
              : html`<${ReceiptTable} receipts=${found.items} keyName=${keyName} caption="Receipts, newest first" linked=${view.account === ""} />`
          }
          <${Pages} of="receipts" cursors=${cursors} next=${found.nextCursor} loading=${page.loading} turnTo=${turnTo} />
        `,
      })}
    </section>
  `;
}

/** @param {string} cause */
function inWords(cause) {
  return cause.replaceAll("_", " ");
}

/**
 * `linked`: each receipt leads to its run. `ofRun`: they are all of one run.
 * @param {{receipts: Receipt[], keyName?: KeyName, caption: string, linked?: boolean, ofRun?: boolean}} props
 */
export function ReceiptTable({ receipts, keyName = String, caption, linked = false, ofRun = false }) {
  /** @type {(Column<Receipt> | false)[]} */
  const columns = [
    { label: "Used at (UTC)", show: ({ usedAt }) => timeOf(usedAt) },
    { label: "Charged", isNumber: true, show: ({ chargedCredits }) => chargeOf(fromCredits(chargedCredits)) },
    ofRun
      ? { label: "Message", show: ({ usageUnitId }) => idOf(usageUnitId) }
      : { label: "Run", show: ({ runId }) => idOf(runId, linked && linkTo({ run: runId })) },
    !ofRun && { label: "Graph", show: ({ graphId }) => html`<span class="named" title=${graphId}>${graphId}</span>` },
    { label: "Model", show: ({ model }) => html`<span class="named" title=${model}>${model}</span>` },
    !ofRun && { label: "API key", show: ({ apiKeyId }) => html`<span class="named">${keyName(apiKeyId)}</span>` },
    { label: "Basis", show: (receipt) => html`<${Kind} receipt=${receipt} />` },
    { label: "Input", isNumber: true, show: ({ inputTokens }) => count(inputTokens) },
    { label: "Cache read", isNumber: true, show: ({ cacheReadTokens }) => count(cacheReadTokens) },
    { label: "Cache write", isNumber: true, show: (its) => count(its.cacheWrite5mTokens + its.cacheWrite1hTokens) },
    {
      label: "Output",
      isNumber: true,
      show: ({ outputEstimated, outputTokens }) =>
        html`${outputEstimated && html`<abbr title="Counted from what was received">~</abbr>`}${count(outputTokens)}`,
    },
  ];
  const details = (/** @type {Receipt} */ receipt) => html`<${ReceiptDetails} receipt=${receipt} />`;
  return html`<${Table} caption=${caption} rowKey="id" items=${receipts} columns=${columns} details=${details} />`;
}

/** @param {bigint} charged */
function chargeOf(charged) {
  return html`<span title=${formatExact(charged)}>${formatFixed(charged, 6)}</span>`;
}

/**
 * The basis of a receipt, and its origin unless that is the agent.
 * @param {{receipt: Receipt}} props
 */
function Kind({ receipt: { basis, origin, note, unpriced } }) {
  return html`
    <span title=${[note, ...unpriced].filter(Boolean).join(" · ")}><${Word} usual="final" word=${basis} /></span>
    ${origin !== "assistant" && html` <span class=${`badge badge-${origin}`}>${origin}</span>`}
  `;
}

/** @param {{usual: string, word: string}} props */
function Word({ usual, word }) {
  return word === usual
    ? html`<span class="muted">${word}</span>`
    : html`<span class=${`badge badge-${word}`}>${word}</span>`;
}
