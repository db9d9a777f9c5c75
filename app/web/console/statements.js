// Statements of finished months, and exports of everything that was charged.

/** @import { Column } from "../parts/table.js" */
/** @import { Session } from "../shell.js" */
/** @import { Query } from "./view.js" */

import { apiPath, apiUrl } from "../api.js";
import { html } from "../html.js";
import { formatFixed, parseDollars } from "../money.js";
import { listed, Table, timeOf, usePages } from "../parts/table.js";

const PAGE = 50;
const CENTS = 2;

/** @typedef {Schemas["StatementSummary"]} Statement */

/** @param {{who: Session, query: Query}} props */
export function Statements({ who, query }) {
  const { account = "" } = query;
  const pages = usePages((cursor) => apiPath("/v1/statements", { account, limit: PAGE, cursor }));
  const linkOf = (/** @type {string} */ month, /** @type {"pdf" | "json"} */ format) =>
    html`<a href=${apiUrl(apiPath("/v1/statements/{month}", { month, account, format }))} download=${`statement-${month}.${format}`} aria-label=${`${format.toUpperCase()} of ${month}`}>${format.toUpperCase()}</a>`;
  /** @type {Column<Statement>[]} */
  const columns = [
    { label: "Month", show: ({ month }) => month },
    { label: "Opening", isNumber: true, show: ({ openingUsd }) => formatFixed(parseDollars(openingUsd), CENTS) },
    { label: "Closing", isNumber: true, show: ({ closingUsd }) => formatFixed(parseDollars(closingUsd), CENTS) },
    { label: "Made", show: ({ madeAt }) => timeOf(madeAt) },
    { label: "Download", show: ({ month }) => html`${linkOf(month, "pdf")} ${linkOf(month, "json")}` },
  ];
  return html`
    ${listed(pages, {
      of: "statements",
      none: "There is no statement yet: each is made an hour after its month has ended.",
      show: (items) =>
        html`<${Table} caption="Statements, newest first" rowKey="month" items=${items} columns=${columns} />`,
    })}
    ${(account === "" || account === who.account) && html`<${Exports} />`}
  `;
}

function Exports() {
  const now = new Date();
  const monthAt = (/** @type {number} */ offset) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + offset, 1)).toISOString();
  const [last, current, next] = [-1, 0, 1].map(monthAt);
  const focus = (/** @type {string} */ from, /** @type {string} */ to, /** @type {"csv" | "parquet"} */ format) =>
    apiPath("/v1/exports/focus", { from, to, format });
  const exports = [
    [`FOCUS costs of ${current.slice(0, 7)}, CSV`, focus(current, next, "csv"), "focus.csv"],
    [`FOCUS costs of ${last.slice(0, 7)}, CSV`, focus(last, current, "csv"), "focus.csv"],
    [`FOCUS costs of ${last.slice(0, 7)}, Parquet`, focus(last, current, "parquet"), "focus.parquet"],
    ["All receipts, CSV", apiPath("/v1/receipts", { format: "csv" }), "receipts.csv"],
    ["The ledger, CSV", apiPath("/v1/ledger", { format: "csv" }), "ledger.csv"],
  ];
  return html`
    <section class="card" aria-labelledby="exports-title">
      <h2 id="exports-title">Exports</h2>
      <ul>${exports.map(([label, path, file]) => html`<li><a href=${apiUrl(path)} download=${file}>${label}</a></li>`)}</ul>
    </section>
  `;
}
