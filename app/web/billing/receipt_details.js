// What one receipt consists of: the lines of its price, and what the provider reported.

import { html } from "../html.js";
import { formatExact, parseDollars } from "../money.js";
import { count, formatTime } from "../parts/format.js";

/** @typedef {Schemas["ReceiptLineResponse"]} ReceiptLine */

/** @type {Record<string, string>} */
const KINDS = {
  input: "Input tokens",
  output: "Output tokens",
  cache_read: "Cache reads",
  cache_write_5m: "Cache writes, 5 minutes",
  cache_write_1h: "Cache writes, 1 hour",
  web_search_requests: "Web searches",
  web_fetch_requests: "Web fetches",
};
/** @type {Record<string, string>} */
const DIMENSIONS = { inference_geo: "Region", service_tier: "Service tier", speed: "Speed" };

/** @param {{receipt: Receipt}} props */
export function ReceiptDetails({ receipt }) {
  return html`
    <div class="receipt-details">
      ${
        receipt.unpriced.length > 0 &&
        html`<p class="notice notice-warn">
          Without a known price and not charged: ${receipt.unpriced.map((part, index) => html`${index > 0 && ", "}<code>${part}</code>`)}
        </p>`
      }
      ${receipt.lines.length > 0 ? html`<${Lines} receipt=${receipt} />` : html`<p class="hint">${withoutLines(receipt)}</p>`}
      <dl class="facts">
        ${facts(receipt)
          .filter(([, value]) => value !== null && value !== "")
          .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
      </dl>
      ${
        Object.keys(receipt.providerUsage).length > 0 &&
        html`
          <details>
            <summary>Usage as the provider reported it</summary>
            <pre><code>${JSON.stringify(receipt.providerUsage, null, 2)}</code></pre>
          </details>
        `
      }
    </div>
  `;
}

/** @param {{receipt: Receipt}} props */
function Lines({ receipt: { lines, costUsd, model } }) {
  const others = lines.some((line) => line.model !== model);
  return html`
    <table class="figures lines">
      <caption class="visually-hidden">Lines of the price</caption>
      <thead>
        <tr>
          <th scope="col">Part</th>
          <th scope="col">What</th>
          ${others && html`<th scope="col">Model</th>`}
          <th scope="col" class="number">Quantity</th>
          <th scope="col" class="number">Price of one (USD)</th>
          <th scope="col" class="number">Amount (USD)</th>
        </tr>
      </thead>
      <tbody>
        ${lines.map(
          (line) => html`
            <tr>
              <td>${line.part.replaceAll("_", " ")}</td>
              <td>${nameOf(line)}</td>
              ${others && html`<td>${line.model}</td>`}
              <td class="number">${quantityOf(line)}</td>
              <td class="number">${isFactor(line) ? signed(line.unitPriceUsd) : line.unitPriceUsd}</td>
              <td class="number">${line.amountUsd}</td>
            </tr>
          `,
        )}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row" colspan=${others ? 5 : 4}>Sum</th>
          <td class="number">${formatExact(parseDollars(costUsd))}</td>
        </tr>
      </tfoot>
    </table>
  `;
}

/** @param {ReceiptLine} line */
const isFactor = (line) => line.kind.includes(":");

/** @param {ReceiptLine} line */
function nameOf(line) {
  const [kind = "", value] = line.kind.split(":");
  return value === undefined ? (KINDS[kind] ?? kind) : `${DIMENSIONS[kind] ?? kind}: ${value}`;
}

/** The quantity of a factor is the dollars that it multiplies.
 * @param {ReceiptLine} line */
function quantityOf(line) {
  if (isFactor(line)) return `$${line.quantity}`;
  return Number.isSafeInteger(Number(line.quantity)) ? count(Number(line.quantity)) : line.quantity;
}

/** @param {string} factor */
const signed = (factor) => (factor.startsWith("-") ? `× ${factor}` : `× +${factor}`);

/** @param {Receipt} receipt */
function withoutLines({ basis, stopReason, outputTokens, unpriced }) {
  if (stopReason === "refusal" && outputTokens === 0)
    return "The provider refused before any output: nothing is charged.";
  if (unpriced.length > 0) return "Nothing of it has a known price yet.";
  return basis === "adjustment" ? "This adjustment has no lines." : "No lines are stored.";
}

/** @param {Schemas["CacheMissResponse"]} miss @param {string} costUsd */
function missOf({ cause, part, expectedTokens, readTokens }, costUsd) {
  const where = part === null ? "" : ` in ${part}`;
  const tokens = count(expectedTokens - readTokens);
  return `${cause.replaceAll("_", " ")}${where}: ${tokens} tokens for ${formatExact(parseDollars(costUsd))} more`;
}

/**
 * @param {Receipt} receipt
 * @returns {[string, any][]}
 */
function facts(receipt) {
  return [
    ["Used at (UTC)", html`<time datetime=${receipt.usedAt}>${formatTime(receipt.usedAt)}</time>`],
    ["Recorded at (UTC)", html`<time datetime=${receipt.createdAt}>${formatTime(receipt.createdAt)}</time>`],
    ["Message", html`<code>${receipt.usageUnitId}</code>`],
    ["Requested model", receipt.requestedModel !== receipt.model ? receipt.requestedModel : ""],
    ["Region", receipt.inferenceGeo],
    ["Service tier", receipt.serviceTier],
    ["Speed", receipt.speed],
    ["Ended with", receipt.stopReason],
    ["Cache miss", receipt.cacheMiss && missOf(receipt.cacheMiss, receipt.cacheMissUsd)],
    ["Price list", receipt.priceVersion],
    ["Note", receipt.note],
    ["Provider’s request", receipt.providerRequestId && html`<code>${receipt.providerRequestId}</code>`],
    ["Provider’s organization", receipt.providerOrganizationId && html`<code>${receipt.providerOrganizationId}</code>`],
    ["Provider’s workspace", receipt.providerWorkspaceId && html`<code>${receipt.providerWorkspaceId}</code>`],
  ];
}
