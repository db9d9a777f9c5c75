// The receipts themselves: filtered, page by page, and as a file.

import { urlOf } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { exactMoney, fixed, ofCredits } from "../money.js";
import { addressOf, withQuery } from "./address.js";
import { count, moment } from "./figures.js";
import { Choice } from "./filters.js";
import { Loaded, useAnswers } from "./load.js";

const PAGE = 50;
const BASES = ["final", "partial", "recovered", "unpriced", "adjustment"];
const ORIGINS = ["assistant", "subagent", "hidden"];

export function Receipts({ view, show, wanted, keyName }) {
  const filters = { ...wanted, runId: view.runId, basis: view.basis, origin: view.origin };
  const search = withQuery("v1/receipts", filters);
  // Cursors of the pages seen so far; the last is the one shown.
  const [trail, setTrail] = useState({ search, cursors: [""] });
  const cursors = trail.search === search ? trail.cursors : [""];
  const page = useAnswers([withQuery("v1/receipts", { ...filters, limit: PAGE, cursor: cursors.at(-1) })]);
  const turnTo = (next) => setTrail({ search, cursors: next });

  return html`
    <section class="card receipts" aria-labelledby="receipts-title">
      <div class="section-head">
        <h2 id="receipts-title">Receipts</h2>
        <a class="button button-small" href=${urlOf(withQuery("v1/receipts", { ...filters, format: "csv" }))} download="receipts.csv">
          Export as CSV
        </a>
      </div>
      <div class="filters" role="group" aria-label="Filters of receipts">
        <${RunField} view=${view} show=${show} />
        <${Choice} label="Basis" all="Any" name="basis" view=${view} show=${show} values=${BASES} />
        <${Choice} label="Origin" all="Any" name="origin" view=${view} show=${show} values=${ORIGINS} />
      </div>
      <${Loaded}
        of=${page}
        what="receipts"
        show=${([found]) => html`
          ${found.items.length === 0
            ? html`<p class="empty">No receipt matches.</p>`
            : html`<${ReceiptTable} receipts=${found.items} keyName=${keyName} caption="Receipts, newest first" linked />`}
          <nav class="pages" aria-label="Pages of receipts">
            <button
              type="button"
              class="button button-small"
              disabled=${cursors.length === 1}
              onClick=${() => turnTo(cursors.slice(0, -1))}
            >
              Newer
            </button>
            <span class="hint" role="status">Page ${cursors.length}</span>
            <button
              type="button"
              class="button button-small"
              disabled=${page.loading || found.nextCursor === null}
              onClick=${() => turnTo([...cursors, found.nextCursor])}
            >
              Older
            </button>
          </nav>
        `}
      />
    </section>
  `;
}

function RunField({ view, show }) {
  const [text, setText] = useState(view.runId);
  useEffect(() => setText(view.runId), [view.runId]);
  const search = (event) => {
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
          onInput=${(event) => setText(event.target.value)}
          onChange=${search}
        />
      </label>
    </form>
  `;
}

/** `linked`: each receipt leads to its run. */
export function ReceiptTable({ receipts, keyName, caption, linked = false }) {
  return html`
    <div class="scroll-x" role="region" aria-label=${caption} tabindex="0">
      <table class="figures">
        <caption class="visually-hidden">${caption}</caption>
        <thead>
          <tr>
            <th scope="col">Charged at (UTC)</th>
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

function Row({ receipt, keyName, linked }) {
  const charged = ofCredits(receipt.chargedCredits);
  return html`
    <tr>
      <td><time datetime=${receipt.createdAt}>${moment(receipt.createdAt)}</time></td>
      <td class="number" title=${exactMoney(charged)}>${fixed(charged, 6)}</td>
      ${linked &&
      html`
        <td><a class="id" href=${addressOf({ run: receipt.runId })} title=${receipt.runId}>${receipt.runId}</a></td>
        <td>${receipt.graphId}</td>
      `}
      <td>${receipt.model}</td>
      ${linked
        ? html`<td>${keyName(receipt.apiKeyId)}</td>`
        : html`<td><span class="id" title=${receipt.usageUnitId}>${receipt.usageUnitId}</span></td>`}
      <td title=${receipt.note}><${Word} usual="final" word=${receipt.basis} /></td>
      <td><${Word} usual="assistant" word=${receipt.origin} /></td>
      <td class="number">${count(receipt.inputTokens)}</td>
      <td class="number">${count(receipt.cacheReadTokens)}</td>
      <td class="number">${count(receipt.cacheWrite5mTokens + receipt.cacheWrite1hTokens)}</td>
      <td class="number">
        ${receipt.outputEstimated ? html`<abbr title="Counted from what was received">~</abbr>` : ""}${count(receipt.outputTokens)}
      </td>
    </tr>
  `;
}

function Word({ usual, word }) {
  return word === usual ? html`<span class="muted">${word}</span>` : html`<span class=${`badge badge-${word}`}>${word}</span>`;
}
