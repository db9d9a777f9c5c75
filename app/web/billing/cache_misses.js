// The causes of misses of the prompt cache: what they cost, and what can be done.

/** @import { PageFilters } from "./receipts.js" */
/** @import { Show } from "./view.js" */

import { apiPath } from "../api.js";
import { html } from "../html.js";
import { formatExact, formatFixed, parseDollars } from "../money.js";
import { count } from "../parts/format.js";
import { loaded, useRequests } from "../parts/requests.js";

/** @typedef {Schemas["CacheMissesResponse"]} Misses */

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
            : html`<${MissTable} items=${items} show=${show} />`,
      })}
    </section>
  `;
}

/** @param {{items: readonly Misses[], show: Show}} props */
function MissTable({ items, show }) {
  const caption = "Causes of misses of the cache, the most expensive first";
  return html`
    <div class="scroll-x" role="region" aria-label=${caption} tabindex="0">
      <table class="figures cards" role="table">
        <caption class="visually-hidden">${caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            <th scope="col" role="columnheader">Cause</th>
            ${COLUMNS.map(({ label, isNumber }) => html`<th scope="col" role="columnheader" class=${isNumber && "number"}>${label}</th>`)}
          </tr>
        </thead>
        <tbody role="rowgroup">
          ${items.map(
            (miss) => html`
              <tr role="row" key=${[miss.graphId, miss.model, miss.cause, miss.part].join(" ")}>
                <td role="cell" data-label="Cause">
                  <div>
                    <button
                      type="button"
                      class="link"
                      title="Show the receipts"
                      onClick=${() => show({ graph: miss.graphId, model: miss.model, miss: miss.cause })}
                    >
                      ${CHANGED[miss.part ?? ""] ?? CAUSES[miss.cause][0]}
                    </button>
                    <p class="hint">${CAUSES[miss.cause][1]}</p>
                  </div>
                </td>
                ${COLUMNS.map(
                  ({ label, isNumber, show: cell }) =>
                    html`<td role="cell" class=${isNumber && "number"} data-label=${label}><div>${cell(miss)}</div></td>`,
                )}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}

/** @type {{label: string, show: (miss: Misses) => unknown, isNumber?: boolean}[]} */
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
