// The changes of the account's credit, newest first.

/** @import { Column } from "../parts/table.js" */

import { apiPath, apiUrl } from "../api.js";
import { html } from "../html.js";
import { formatExact, formatFixed, parseDollars } from "../money.js";
import { idOf, listed, Table, timeOf, usePages } from "../parts/table.js";
import { linkTo } from "./view.js";

const PAGE = 20;

/** @typedef {Schemas["LedgerEntryResponse"]} Entry */

/**
 * The `account` is the name of another one, for operators.
 * @param {{account?: string}} props
 */
export function Ledger({ account = "" }) {
  const pages = usePages((cursor) => apiPath("/v1/ledger", { account, limit: PAGE, cursor }));
  return html`
    <section class="card" aria-labelledby="ledger-title">
      <div class="section-head">
        <h2 id="ledger-title">Changes of credit</h2>
        <a class="button button-small" href=${apiUrl(apiPath("/v1/ledger", { account, format: "csv" }))} download="ledger.csv">Export as CSV</a>
      </div>
      ${listed(pages, {
        of: "credit",
        none: "Nothing has been granted or charged.",
        show: (items) =>
          html`<${Table} caption="Changes of credit, newest first" rowKey="id" items=${items} columns=${COLUMNS} />`,
      })}
    </section>
  `;
}

/** @type {Column<Entry>[]} */
const COLUMNS = [
  { label: "Entered at (UTC)", show: ({ createdAt }) => timeOf(createdAt) },
  { label: "Kind", show: ({ kind }) => kind },
  { label: "Amount", isNumber: true, show: ({ amountUsd }) => moneyOf(amountUsd) },
  { label: "Balance after", isNumber: true, show: ({ balanceAfterUsd }) => moneyOf(balanceAfterUsd) },
  { label: "Run", show: ({ runId }) => runId && idOf(runId, linkTo({ run: runId })) },
  { label: "Note", show: ({ note }) => note && html`<span class="wrapped">${note}</span>` },
];

/** @param {string} usd */
function moneyOf(usd) {
  const amount = parseDollars(usd);
  return html`<span title=${formatExact(amount)}>${formatFixed(amount, 6)}</span>`;
}
