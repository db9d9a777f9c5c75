// Alarms: runs with meter drift, and messages without a complete price.

/** @import { ApiWindow } from "./view.js" */

import { apiPath } from "../api.js";
import { html } from "../html.js";
import { formatExact, parseDollars } from "../money.js";
import { countOf, formatTime } from "../parts/format.js";
import { loaded, useRequests } from "../parts/requests.js";
import { linkTo } from "./view.js";

/** @typedef {Schemas["AlarmsResponse"]} AlarmsResponse */

/** @param {{window: ApiWindow, account: string}} props */
export function Alarms({ window, account }) {
  const alarms = useRequests([apiPath("/v1/alarms", { ...window, account })], null);
  return html`
    <section class="alarms" aria-label="Alarms">
      ${loaded(alarms, { what: "alarms", show: ([found]) => html`<${Found} found=${found} />` })}
    </section>
  `;
}

/** @param {{found: AlarmsResponse}} props */
function Found({ found: { drift, unpriced } }) {
  if (drift.runs === 0 && unpriced.receipts === 0) {
    return html`<p class="calm">No alarms: the meters agree, and everything has a price.</p>`;
  }
  return html`
    ${
      drift.runs > 0 &&
      html`<${Alarm}
      bad
      title=${`The two meters disagreed in ${countOf(drift.runs, "run")}, on ${disagreement(drift)}`}
      advice="What the gateway saw was charged. The server’s log has both numbers of each message, and of each cost."
      count=${drift.runs}
      items=${drift.newest.map((run) => ({
        runId: run.runId,
        text: `SDK ${run.meters?.sdk}, gateway ${run.meters?.gateway}, drift ${run.drift}${costDrift(run)}`,
        at: run.endedAt,
      }))}
    />`
    }
    ${
      unpriced.receipts > 0 &&
      html`<${Alarm}
      title=${`${countOf(unpriced.receipts, "message")} without a complete price`}
      advice="Their tokens are kept; what has no known price is not charged. An operator adds it to RUNTALLY_PRICES_FILE and runs “runtally reprice”."
      count=${unpriced.receipts}
      items=${unpriced.newest.map((receipt) => ({ runId: receipt.runId, text: [receipt.model, ...receipt.unpriced].join(" · "), at: receipt.usedAt }))}
    />`
    }
  `;
}

/** @param {AlarmsResponse["drift"]} drift */
function disagreement({ messages, costUsd }) {
  const cost = parseDollars(costUsd);
  const parts = [messages > 0 && countOf(messages, "message"), cost !== 0n && `${formatExact(cost)} of cost`];
  return parts.filter(Boolean).join(" and ");
}

/** @param {AlarmsResponse["drift"]["newest"][number]} run */
function costDrift({ costComparison }) {
  const drift = parseDollars(costComparison?.driftUsd ?? "0");
  return drift === 0n ? "" : `, ${formatExact(drift)} of cost`;
}

/**
 * @param {object} props
 * @param {boolean} [props.bad]
 * @param {string} props.title
 * @param {string} props.advice
 * @param {number} props.count
 * @param {{runId: string, text: string, at: string | null}[]} props.items
 */
function Alarm({ bad = false, title, advice, count, items }) {
  return html`
    <details class=${`alarm notice ${bad ? "notice-bad" : "notice-warn"}`}>
      <summary>${title}</summary>
      <p>${advice}</p>
      <ul>
        ${items.map(
          (item) => html`
            <li>
              <a href=${linkTo({ run: item.runId })}><code>${item.runId}</code></a> · ${item.text} ·${" "}
              ${item.at && html`<time datetime=${item.at}>${formatTime(item.at)}</time>`}
            </li>
          `,
        )}
      </ul>
      ${count > items.length && html`<p>These are the newest ${items.length}.</p>`}
    </details>
  `;
}
