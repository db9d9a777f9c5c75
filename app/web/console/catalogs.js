// Tools, and models with their prices, as the server has them.

/** @import { Column } from "../parts/table.js" */
/** @import { Session } from "../shell.js" */

import { apiPath } from "../api.js";
import { html } from "../html.js";
import { plainDecimal } from "../money.js";
import { count } from "../parts/format.js";
import { loaded, useRequests } from "../parts/requests.js";
import { badge, Table } from "../parts/table.js";

/** @typedef {Schemas["ToolResponse"]} Tool */
/** @typedef {Schemas["ModelResponse"]} Model */
/** @typedef {Schemas["PriceResponse"]} Price */

/** @type {Column<Tool>[]} */
const TOOL_COLUMNS = [
  { label: "Tool", show: ({ id }) => html`<code>${id}</code>` },
  { label: "Effect", show: ({ effect }) => effect.replaceAll("_", " ") },
  { label: "Description", show: ({ description }) => html`<span class="wrapped">${description}</span>` },
  {
    label: "Arguments",
    show: ({ inputSchema }) =>
      html`<span class="wrapped">${Object.keys(inputSchema.properties ?? {}).join(", ")}</span>`,
  },
];

export function Tools() {
  return loaded(useRequests([apiPath("/v1/tools")], null), {
    what: "tools",
    show: ([{ items }]) => html`<${Table} caption="Tools by id" rowKey="id" items=${items} columns=${TOOL_COLUMNS} />`,
  });
}

/** @type {Column<Model>[]} */
const MODEL_COLUMNS = [
  { label: "Model", show: ({ id }) => id },
  { label: "Also called", show: ({ aliases }) => html`<span class="wrapped">${aliases.join(", ")}</span>` },
  { label: "Roles", show: ({ roles }) => roles.join(", ") },
  { label: "State", show: ({ priced, refusal }) => stateOf(priced, refusal) },
  {
    label: "Context",
    isNumber: true,
    show: ({ options }) => (options.contextWindow === null ? "–" : count(options.contextWindow)),
  },
  { label: "Input", isNumber: true, show: ({ inputUsdPerMTok }) => priceOf(inputUsdPerMTok) },
  { label: "Output", isNumber: true, show: ({ outputUsdPerMTok }) => priceOf(outputUsdPerMTok) },
  { label: "Cache read", isNumber: true, show: ({ cacheReadUsdPerMTok }) => priceOf(cacheReadUsdPerMTok) },
];

/** @param {{who: Session}} props */
export function Models({ who }) {
  return html`
    <p class="hint">Prices are in dollars for a million tokens, before the markup.</p>
    ${loaded(useRequests([apiPath("/v1/models")], null), {
      what: "models",
      show: ([{ items }]) =>
        html`<${Table} caption="Models by id" rowKey="id" items=${items} columns=${MODEL_COLUMNS} />`,
    })}
    ${who.may("receipts:read") && html`<${Prices} />`}
  `;
}

/** @param {boolean} priced @param {string | null | undefined} refusal */
function stateOf(priced, refusal) {
  if (refusal) return html`${badge("refused", "failed")} ${refusal}`;
  return priced ? badge("usable", "succeeded") : badge("without a price", "partial");
}

/** @param {string | null} usd */
function priceOf(usd) {
  return usd === null ? "–" : plainDecimal(usd);
}

/** @type {Column<Price>[]} */
const PRICE_COLUMNS = [
  { label: "Model", show: ({ model }) => model },
  { label: "Version", show: ({ priceVersion }) => priceVersion },
  { label: "Input", isNumber: true, show: ({ input }) => input.usdPerMTok },
  { label: "Output", isNumber: true, show: ({ output }) => output.usdPerMTok },
  { label: "Cache read", isNumber: true, show: ({ cacheRead }) => cacheRead.usdPerMTok },
  { label: "Cache write, 5 min", isNumber: true, show: (price) => price.cacheWrite5m.usdPerMTok },
  { label: "Cache write, 1 h", isNumber: true, show: (price) => price.cacheWrite1h.usdPerMTok },
];

function Prices() {
  return html`
    <section class="card" aria-labelledby="prices-title">
      <h2 id="prices-title">All prices</h2>
      ${loaded(useRequests([apiPath("/v1/prices")], null), {
        what: "prices",
        show: ([{ items }]) =>
          html`<${Table} caption="Prices by model" rowKey="model" items=${items} columns=${PRICE_COLUMNS} />`,
      })}
    </section>
  `;
}
