// The changes of the account's credit, newest first.

import { apiPath, apiUrl } from "../api.js";
import { html, useState } from "../html.js";
import { formatExact, formatFixed, parseDollars } from "../money.js";
import { formatTime } from "../parts/format.js";
import { Pages } from "../parts/pages.js";
import { loaded, useRequests } from "../parts/requests.js";
import { linkTo } from "./view.js";

const PAGE = 20;

/** @typedef {Schemas["LedgerEntryResponse"]} Entry */

/**
 * The `account` is the name of another one, for operators.
 * @param {{account?: string}} props
 */
export function Ledger({ account = "" }) {
  const [cursors, turnTo] = useState([""]);
  const page = useRequests([apiPath("/v1/ledger", { account, limit: PAGE, cursor: cursors.at(-1) })], null);
  return html`
    <section class="card receipts" aria-labelledby="ledger-title">
      <div class="section-head">
        <h2 id="ledger-title">Credit</h2>
        <a class="button button-small" href=${apiUrl(apiPath("/v1/ledger", { account, format: "csv" }))} download="ledger.csv">Export as CSV</a>
      </div>
      ${loaded(page, {
        what: "changes of credit",
        show: ([found]) => html`
          ${
            found.items.length === 0
              ? html`<p class="empty">Nothing has been granted or charged.</p>`
              : html`<${Entries} entries=${found.items} />`
          }
          <${Pages} of="credit" cursors=${cursors} next=${found.nextCursor} loading=${page.loading} turnTo=${turnTo} />
        `,
      })}
    </section>
  `;
}

/** @param {{entries: Entry[]}} props */
function Entries({ entries }) {
  const caption = "Changes of credit, newest first";
  return html`
    <div class="scroll-x" role="region" aria-label=${caption} tabindex="0">
      <table class="figures">
        <caption class="visually-hidden">${caption}</caption>
        <thead>
          <tr>
            <th scope="col">Entered at (UTC)</th>
            <th scope="col">Kind</th>
            <th scope="col" class="number">Amount</th>
            <th scope="col" class="number">Balance after</th>
            <th scope="col">Run</th>
            <th scope="col">Note</th>
          </tr>
        </thead>
        <tbody>
          ${entries.map((entry) => html`<${Row} key=${entry.id} entry=${entry} />`)}
        </tbody>
      </table>
    </div>
  `;
}

/** @param {{entry: Entry}} props */
function Row({ entry }) {
  const [amount, balance] = [parseDollars(entry.amountUsd), parseDollars(entry.balanceAfterUsd)];
  return html`
    <tr>
      <td><time datetime=${entry.createdAt}>${formatTime(entry.createdAt)}</time></td>
      <td>${entry.kind}</td>
      <td class="number" title=${formatExact(amount)}>${formatFixed(amount, 6)}</td>
      <td class="number" title=${formatExact(balance)}>${formatFixed(balance, 6)}</td>
      <td>${entry.runId && html`<a class="id" href=${linkTo({ run: entry.runId })} title=${entry.runId}>${entry.runId}</a>`}</td>
      <td>${entry.note}</td>
    </tr>
  `;
}
