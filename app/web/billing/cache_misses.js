// The causes of misses of the prompt cache: what they cost, and what can be done.

/** @import { PageFilters } from "./receipts.js" */
/** @import { Column } from "../parts/table.js" */
/** @import { Show } from "./view.js" */

import { apiPath } from "../api.js";
import { html } from "../html.js";
import { formatExact, formatFixed, parseDollars } from "../money.js";
import { count } from "../parts/format.js";
import { loaded, useRequests } from "../parts/requests.js";
import { Table } from "../parts/table.js";

/** @typedef {Schemas["CacheMissesResponse"]} Misses */
/** @typedef {Misses & {key: string}} Row */

/** @type {Record<Misses["cause"], [string, string]>} */
const CAUSES = {
  changed: ["The prompt changed", "Put what changes from turn to turn behind what does not."],
  model: ["Another model was asked", "Keep the model within a conversation: each has a cache of its own."],
  parameters: ["Another option was set", "Keep options, such as thinking, within a conversation."],
  expired: ["The cache had expired", "No remedy: nothing was asked for five minutes, or an hour."],
  too_far: ["Too much was added at once", "No remedy: the provider looks back 20 content blocks."],
  not_found: ["The provider had not kept it", "No remedy: nothing changed and nothing had expired."],
};
/** @type {Record<string, string>} */
const CHANGED = {
  tools: "The tools changed",
  system: "The system prompt changed",
  messages: "Earlier messages changed",
};

/** @param {{show: Show, filters: PageFilters}} props */
export function CacheMisses({ show, filters }) {
  const misses = useRequests([apiPath("/v1/usage/cache-misses", filters)], null);
  return html`
    <section class="card misses" aria-labelledby="misses-title">
      <h2 id="misses-title">Missed in the prompt cache</h2>
      ${loaded(misses, {
        what: "misses of the cache",
        show: ([{ items }]) =>
          items.length === 0
            ? html`<p class="calm">Every prompt was read from the cache as far as it was there.</p>`
            : html`<${Table}
                caption="Causes of misses of the cache, the most expensive first"
                columns=${[causeFor(show), ...COLUMNS]}
                items=${items.map((miss) => ({ ...miss, key: [miss.graphId, miss.model, miss.cause, miss.part].join(" ") }))}
                rowKey="key"
              />`,
      })}
    </section>
  `;
}

/**
 * The cause leads to its receipts.
 * @param {Show} show
 * @returns {Column<Row>}
 */
function causeFor(show) {
  return {
    label: "Cause",
    show: ({ graphId, model, cause, part }) => html`
      <button type="button" class="link" title="Show the receipts" onClick=${() => show({ graph: graphId, model, miss: cause })}>
        ${CHANGED[part ?? ""] ?? CAUSES[cause][0]}
      </button>
      <p class="hint">${CAUSES[cause][1]}</p>
    `,
  };
}

/** @type {Column<Row>[]} */
const COLUMNS = [
  {
    label: "Paid for it",
    isNumber: true,
    show: ({ costUsd }) => {
      const cost = parseDollars(costUsd);
      return html`<span title=${formatExact(cost)}>${formatFixed(cost, 4)}</span>`;
    },
  },
  { label: "Messages", isNumber: true, show: ({ receipts }) => count(receipts) },
  { label: "Tokens", isNumber: true, show: ({ missedTokens }) => count(missedTokens) },
  { label: "Graph", show: ({ graphId }) => html`<span class="named" title=${graphId}>${graphId}</span>` },
  { label: "Model", show: ({ model }) => html`<span class="named" title=${model}>${model}</span>` },
];
