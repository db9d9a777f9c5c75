// The list of receipts: filters, pages and CSV export.

/** @import { ApiWindow, Show, View } from "./view.js" */

import { apiPath, apiUrl } from "../api.js";
import { html, useEffect, useState, withValue } from "../html.js";
import { formatExact, formatFixed, fromCredits } from "../money.js";
import { count, formatTime } from "../parts/format.js";
import { Pages } from "../parts/pages.js";
import { loaded } from "../parts/requests.js";
import { usePages } from "../parts/table.js";
import { Choice } from "./filters.js";
import { ReceiptDetails } from "./receipt_details.js";
import { BASES, linkTo, ORIGINS } from "./view.js";

const PAGE = 50;

/** @typedef {(id: string) => string} KeyName */
/** @typedef {ApiWindow & {model: string, graphId: string, apiKeyId: string}} PageFilters */

/** @param {{view: View, show: Show, filters: PageFilters, keyName: KeyName}} props */
export function Receipts({ view, show, filters: pageFilters, keyName }) {
  const filters = { ...pageFilters, runId: view.runId, basis: view.basis, origin: view.origin };
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
        <${RunField} view=${view} show=${show} />
        <${Choice} label="Basis" all="Any" name="basis" view=${view} show=${show} values=${BASES} />
        <${Choice} label="Origin" all="Any" name="origin" view=${view} show=${show} values=${ORIGINS} />
      </div>
      ${loaded(page, {
        what: "receipts",
        show: ([found]) => html`
          ${
            found.items.length === 0
              ? html`<p class="empty">No receipt matches.</p>`
              : html`<${ReceiptTable} receipts=${found.items} keyName=${keyName} caption="Receipts, newest first" linked />`
          }
          <${Pages} of="receipts" cursors=${cursors} next=${found.nextCursor} loading=${page.loading} turnTo=${turnTo} />
        `,
      })}
    </section>
  `;
}

/** @param {{view: View, show: Show}} props */
function RunField({ view, show }) {
  const [text, setText] = useState(view.runId);
  useEffect(() => setText(view.runId), [view.runId]);
  const search = (/** @type {Event} */ event) => {
    event.preventDefault();
    show({ runId: text.trim() });
  };
  return html`
    <form onSubmit=${search}>
      <label class="field">
        <span>Run id</span>
        <input
          type="search"
          value=${text}
          autocomplete="off"
          spellcheck=${false}
          placeholder="Any"
          onInput=${withValue(setText)}
          onChange=${search}
        />
      </label>
    </form>
  `;
}

/**
 * `linked`: each receipt leads to its run.
 * @param {{receipts: Receipt[], keyName: KeyName, caption: string, linked?: boolean}} props
 */
export function ReceiptTable({ receipts, keyName, caption, linked = false }) {
  return html`
    <div class="scroll-x" role="region" aria-label=${caption} tabindex="0">
      <table class="figures">
        <caption class="visually-hidden">${caption}</caption>
        <thead>
          <tr>
            <th scope="col">Used at (UTC)</th>
            <th scope="col" class="number">Charged</th>
            ${linked && html`<th scope="col">Run</th><th scope="col">Graph</th>`}
            <th scope="col">Model</th>
            ${linked ? html`<th scope="col">API key</th>` : html`<th scope="col">Message</th>`}
            <th scope="col">Basis</th>
            <th scope="col">Origin</th>
            <th scope="col" class="number">Input</th>
            <th scope="col" class="number">Cache read</th>
            <th scope="col" class="number">Cache write</th>
            <th scope="col" class="number">Output</th>
          </tr>
        </thead>
        <tbody>
          ${receipts.map((receipt) => html`<${Row} key=${receipt.id} ...${{ receipt, keyName, linked }} />`)}
        </tbody>
      </table>
    </div>
  `;
}

/** @param {{receipt: Receipt, keyName: KeyName, linked: boolean}} props */
function Row({ receipt, keyName, linked }) {
  const [open, setOpen] = useState(false);
  const charged = fromCredits(receipt.chargedCredits);
  return html`
    <tr>
      <td>
        <button
          type="button"
          class="disclosure"
          aria-expanded=${open}
          title="Show what it consists of"
          onClick=${() => setOpen(!open)}
        >
          <time datetime=${receipt.usedAt}>${formatTime(receipt.usedAt)}</time>
        </button>
      </td>
      <td class="number" title=${formatExact(charged)}>${formatFixed(charged, 6)}</td>
      ${
        linked &&
        html`
        <td><a class="id" href=${linkTo({ run: receipt.runId })} title=${receipt.runId}>${receipt.runId}</a></td>
        <td>${receipt.graphId}</td>
      `
      }
      <td>${receipt.model}</td>
      ${
        linked
          ? html`<td>${keyName(receipt.apiKeyId)}</td>`
          : html`<td><span class="id" title=${receipt.usageUnitId}>${receipt.usageUnitId}</span></td>`
      }
      <td title=${[receipt.note, ...receipt.unpriced].filter(Boolean).join(" · ")}><${Word} usual="final" word=${receipt.basis} /></td>
      <td><${Word} usual="assistant" word=${receipt.origin} /></td>
      <td class="number">${count(receipt.inputTokens)}</td>
      <td class="number">${count(receipt.cacheReadTokens)}</td>
      <td class="number">${count(receipt.cacheWrite5mTokens + receipt.cacheWrite1hTokens)}</td>
      <td class="number">
        ${receipt.outputEstimated ? html`<abbr title="Counted from what was received">~</abbr>` : ""}${count(receipt.outputTokens)}
      </td>
    </tr>
    ${open && html`<tr class="details-row"><td colspan=${linked ? 12 : 10}><${ReceiptDetails} receipt=${receipt} /></td></tr>`}
  `;
}

/** @param {{usual: string, word: string}} props */
function Word({ usual, word }) {
  return word === usual
    ? html`<span class="muted">${word}</span>`
    : html`<span class=${`badge badge-${word}`}>${word}</span>`;
}
