// Receipts compared with the provider's own reports: the account's share, and for operators all of it.

/** @import { ApiWindow } from "./view.js" */

import { apiPath } from "../api.js";
import { html } from "../html.js";
import { formatExact, formatFixed, formatMoney, parseDollars } from "../money.js";
import { count, countOf, formatTime } from "../parts/format.js";
import { loaded, useRequests } from "../parts/requests.js";

/** @typedef {Schemas["ReconciliationResponse"]} Comparison */
/** @typedef {Schemas["OrganizationResponse"]} Organization */
/** @typedef {Schemas["DifferenceResponse"]} Difference */

const SUMS = /** @type {const} */ ([
  ["recordedUsd", "Recorded"],
  ["reportedUsd", "Reported"],
  ["residualUsd", "Residual"],
  ["explainedUsd", "Explained"],
  ["unexplainedUsd", "Unexplained"],
  ["foreignUsd", "Other keys"],
]);

/** @type {Record<Difference["cause"], string>} */
const CAUSES = {
  shifted: "counted in a neighbouring minute",
  foreign_key: "another program’s key",
  estimated: "an estimated receipt",
  refused: "refused by the provider",
  probe: "a call that is not charged",
  unpriced: "a part without a price",
  lost_receipt: "our call without a receipt",
  unknown_caller: "our key, and not our call",
  no_receipt: "a message without a receipt",
  doubled_receipt: "charged twice",
  not_reported: "a receipt without a message",
  different_counts: "other numbers",
  other_dimension: "another region, tier, speed or length",
  charged_price: "charged at another price",
};

/** @param {{window: ApiWindow}} props */
export function Reconciliation({ window }) {
  const compared = useRequests([apiPath("/v1/reconciliation", window)], null);
  return loaded(compared, {
    what: "the comparison with the provider’s reports",
    show: ([found]) =>
      found.comparedUntil === null ? html`` : html`<${Compared} found=${found} until=${found.comparedUntil} />`,
  });
}

/** What the provider’s reports say of one run. @param {{runId: string}} props */
export function RunReconciliation({ runId }) {
  const compared = useRequests([apiPath("/v1/reconciliation/runs/{runId}", { runId })], null);
  return html`
    <section class="card" aria-labelledby="reports-title">
      <h2 id="reports-title">The provider’s reports</h2>
      ${loaded(compared, {
        what: "the comparison with the provider’s reports",
        show: ([{ run, comparedUntil, differences }]) => html`
          <p class=${parseDollars(run.unconfirmedUsd) === 0n ? "hint" : "problem"}>${reported(run, comparedUntil)}</p>
          ${differences.length > 0 && html`<${Differences} title="Differences of the account at the time of these messages" items=${differences} />`}
        `,
      })}
    </section>
  `;
}

/** @param {Schemas["ConfirmedCost"]} run @param {string | null} until */
function reported(run, until) {
  if (until === null)
    return "Nothing was ever compared. The provider’s own reports are a third meter once the server has ANTHROPIC_ADMIN_API_KEY.";
  const [all, confirmed, unconfirmed, pending] = [
    run.costUsd,
    run.confirmedUsd,
    run.unconfirmedUsd,
    run.pendingUsd,
  ].map(parseDollars);
  if (all === 0n) return "The run cost nothing that could be compared.";
  const parts = [
    confirmed !== 0n && `${formatExact(confirmed)} are confirmed`,
    unconfirmed !== 0n &&
      `${formatExact(unconfirmed)} are in hours with an unexplained difference, which may be of other runs`,
    pending !== 0n &&
      `${formatExact(pending)} are not compared yet: the reports are compared until ${formatTime(until)}`,
  ];
  return `Of ${formatExact(all)} ${parts.filter(Boolean).join(", ")}.`;
}

/** @param {{found: Comparison, until: string}} props */
function Compared({ found, until }) {
  const { account, differences, organization } = found;
  const [all, confirmed, unconfirmed] = [account.costUsd, account.confirmedUsd, account.unconfirmedUsd].map(
    parseDollars,
  );
  return html`
    <section class="card reconciliation" aria-labelledby="reconciliation">
      <div class="section-head">
        <h2 id="reconciliation">Compared with the provider’s reports</h2>
        <p class="hint">until <time datetime=${until}>${formatTime(until)}</time></p>
      </div>
      <p class=${unconfirmed === 0n && differences.length === 0 ? "calm" : ""}>
        <strong>${formatMoney(confirmed ?? 0n)}</strong> of ${formatMoney(all ?? 0n)} at the provider’s prices are confirmed by its own
        reports${unconfirmed !== 0n && html`, ${formatMoney(unconfirmed ?? 0n)} are in hours with an unexplained difference`}${parseDollars(account.pendingUsd) !== 0n && html`, ${formatMoney(parseDollars(account.pendingUsd))} are not compared yet`}.
      </p>
      ${differences.length > 0 && html`<${Differences} title="Differences about this account" items=${differences} />`}
      ${organization !== null && html`<${All} organization=${organization} />`}
    </section>
  `;
}

/** @param {{organization: Organization}} props */
function All({ organization: { total, models, unexplained, prices, problem } }) {
  return html`
    ${problem !== null && html`<p class="notice notice-bad" role="alert">The latest comparison failed: ${problem}</p>`}
    <div class="scroll-x" role="region" aria-label="Comparison of all accounts" tabindex="0">
      <table class="figures">
        <caption class="visually-hidden">What all receipts record and what the provider reports, by model</caption>
        <thead>
          <tr>
            <th scope="col">All accounts</th>
            <th scope="col" class="number">Messages</th>
            ${SUMS.map(([, title]) => html`<th scope="col" class="number">${title}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${[...models, { ...total, model: "All models" }].map(
            (sums) => html`
              <tr key=${sums.model}>
                <th scope="row">${sums.model}</th>
                <td class="number">${count(sums.receipts)}</td>
                ${SUMS.map(
                  ([name]) => html`
                    <td class="number" title=${formatExact(parseDollars(sums[name]))}>
                      ${formatFixed(parseDollars(sums[name]), 4)}
                    </td>
                  `,
                )}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
    ${
      unexplained.length > 0
        ? html`<${Differences} title=${`${countOf(total.unexplained, "unexplained difference")} of all accounts`} items=${unexplained} />`
        : html`<p class="calm">Every difference of all accounts is explained.</p>`
    }
    ${prices.length > 0 && html`<${Prices} prices=${prices} />`}
    ${
      unexplained.length + prices.length > 0 &&
      html`<p><a href="./docs/guide/operations/reconciliation">What to do about each of them</a></p>`
    }
  `;
}

/** @param {{title: string, items: readonly Difference[]}} props */
function Differences({ title, items }) {
  return html`
    <details class="alarm notice notice-bad">
      <summary>${title}</summary>
      <ul>
        ${items.map(
          (item) => html`
            <li key=${item.id}>
              <time datetime=${item.startingAt}>${formatTime(item.startingAt)}</time> · ${item.model} · ${CAUSES[item.cause]}${" "}
              (<code>${item.cause}</code>) · ${item.amountUsd === null ? "no price" : formatExact(parseDollars(item.amountUsd))}
              ${Object.entries(item.counts).map(([kind, tokens]) => html` · ${kind} ${tokens > 0 ? "+" : ""}${count(tokens)}`)}
            </li>
          `,
        )}
      </ul>
    </details>
  `;
}

/** @param {{prices: Organization["prices"]}} props */
function Prices({ prices }) {
  return html`
    <details class="alarm notice notice-warn">
      <summary>${countOf(prices.length, "price")} of the provider ${prices.length === 1 ? "is" : "are"} not ours</summary>
      <p>
        Nothing is adjusted by itself. Correct RUNTALLY_PRICES_FILE, then “runtally reprice --used-since …”.
      </p>
      <ul>
        ${prices.map(
          (price) => html`
            <li>
              ${price.model} ${price.kind}: ${price.providerUnitUsd} USD, ours ${price.ownUnitUsd ?? "none"} (${price.priceVersion}) · since
              ${" "}<time datetime=${price.startingAt}>${formatTime(price.startingAt)}</time> · proposed adjustment
              ${" "}${formatExact(parseDollars(price.amountUsd))}
            </li>
          `,
        )}
      </ul>
    </details>
  `;
}
