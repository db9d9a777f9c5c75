// The audit log: what was done to accounts, keys, credit and budgets, and by whom.

/** @import { Column } from "../parts/table.js" */
/** @import { Session } from "../shell.js" */
/** @import { Query, Show } from "./view.js" */

import { apiPath } from "../api.js";
import { html } from "../html.js";
import { FilterFields } from "../parts/filter_fields.js";
import { listed, Table, timeOf, usePages } from "../parts/table.js";

const PAGE = 50;
const ACCOUNT = { name: "account", label: "Account" };
const FILTERS = [
  { name: "action", label: "Action", placeholder: "key.created" },
  { name: "from", label: "From (UTC)", isTime: true },
  { name: "to", label: "To (UTC)", isTime: true },
];

/** @typedef {Schemas["AuditResponse"]} Entry */

/** @param {{who: Session, query: Query, show: Show}} props */
export function Audit({ who, query, show }) {
  const { account = "", action, from, to } = query;
  const pages = usePages((cursor) => apiPath("/v1/audit", { account, action, from, to, limit: PAGE, cursor }));
  return html`
    <${FilterFields} filters=${who.may("admin") ? [ACCOUNT, ...FILTERS] : FILTERS} values=${query} choose=${show} problem=${pages.page.problem} />
    ${listed(pages, {
      of: "the audit log",
      none: "Nothing matches.",
      show: (items) =>
        html`<${Table} caption="Audit log, newest first" rowKey="id" items=${items} columns=${COLUMNS} />`,
    })}
  `;
}

/** @type {Column<Entry>[]} */
const COLUMNS = [
  { label: "At", show: ({ at }) => timeOf(at) },
  { label: "Account", show: ({ account }) => html`<span class="wrapped">${account}</span>` },
  { label: "Action", show: ({ action }) => html`<code>${action}</code>` },
  { label: "Of", show: ({ target }) => html`<span class="wrapped">${target}</span>` },
  { label: "By", show: (entry) => actorOf(entry) },
  { label: "Change", show: ({ before, after }) => html`<span class="wrapped">${changeOf(before, after)}</span>` },
];

/** @param {Entry} entry */
function actorOf({ actorKeyId, via, address }) {
  const known = actorKeyId !== null && html`<span class="id" title=${actorKeyId}>${actorKeyId}</span>`;
  return html`${known || via} ${address && html`<span class="muted">${address}</span>`}`;
}

/**
 * Only the fields that have changed.
 * @param {Entry["before"]} before
 * @param {Entry["after"]} after
 */
function changeOf(before, after) {
  const text = (/** @type {unknown} */ value) => (value === undefined || value === null ? "–" : JSON.stringify(value));
  return [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])]
    .map((name) => [name, text(before?.[name]), text(after?.[name])])
    .filter(([, old, now]) => old !== now)
    .map(([name, old, now]) => (old === "–" ? `${name} ${now}` : `${name} ${old} → ${now}`))
    .join("; ");
}
