// The totals of a period, and the account's balance.

/** @import { ComponentChildren } from "../vendor/preact.js" */

import { html } from "../html.js";
import { formatExact, formatMoney, fromCredits, parseDollars } from "../money.js";
import { compactCount, count, percent } from "./format.js";

/** @param {{total: UsageReport["total"], balance: Schemas["BalanceResponse"]}} props */
export function Totals({ total, balance }) {
  const charged = fromCredits(total.chargedCredits);
  const saved = parseDollars(total.cacheSavingsUsd);
  const written = total.cacheWrite5mTokens + total.cacheWrite1hTokens;
  const prompt = total.inputTokens + total.cacheReadTokens + written;
  return html`
    <section aria-label="Totals" class="totals">
      <${Figure} label="Charged" value=${formatMoney(charged)} exact=${formatExact(charged)}>
        ${formatMoney(parseDollars(total.costUsd))} at the provider’s prices
      <//>
      <${Figure} label="Saved by the cache" value=${formatMoney(saved)} exact=${formatExact(saved)}>
        ${percent(total.cacheReadTokens, prompt)} of prompt tokens were read from it, misses cost ${formatMoney(parseDollars(total.cacheMissUsd))}
      <//>
      <${Figure} label="Messages" value=${compactCount(total.receipts)} exact=${count(total.receipts)}>
        ${compactCount(prompt)} tokens in, ${compactCount(total.outputTokens)} out${
          total.webSearchRequests + total.webFetchRequests > 0 &&
          html`; ${count(total.webSearchRequests)} web searches, ${count(total.webFetchRequests)} pages`
        }
      <//>
      <${Balance} balance=${balance} />
    </section>
  `;
}

/** @param {{label: string, value: string, exact: string, children: ComponentChildren}} props */
function Figure({ label, value, exact, children }) {
  return html`
    <div class="figure">
      <h2>${label}</h2>
      <p class="figure-value" title=${exact}>${value}</p>
      <p class="hint">${children}</p>
    </div>
  `;
}

/** @param {{balance: Schemas["BalanceResponse"]}} props */
function Balance({ balance }) {
  const prepaid = balance.mode === "prepaid";
  const left = fromCredits(balance.left);
  const month = fromCredits(balance.monthSpent);
  if (!prepaid && balance.monthlyBudget === null) {
    return html`
      <${Figure} label="This month" value=${formatMoney(month)} exact=${formatExact(month)}>
        Postpaid, without a budget${balance.granted > 0 && html`; ${formatMoney(left)} of credit left`}
      <//>
    `;
  }
  const available = fromCredits(Math.max(balance.available ?? 0, 0));
  return html`
    <div class="figure">
      <h2>${prepaid ? "Credit left" : "Available this month"}</h2>
      <p class="figure-value" title=${formatExact(prepaid ? left : available)}>${formatMoney(prepaid ? left : available)}</p>
      ${balance.monthlyBudget !== null && html`<${Budget} spent=${balance.monthSpent} budget=${balance.monthlyBudget} />`}
      <p class="hint">
        ${prepaid && html`${formatMoney(available)} for new runs`}
        ${balance.reserved > 0 && html`${prepaid ? ", " : ""}${formatMoney(fromCredits(balance.reserved))} set aside`}
      </p>
    </div>
  `;
}

/** @param {{spent: number, budget: number}} props */
function Budget({ spent, budget }) {
  const part = budget === 0 ? 100 : Math.min(100, (100 * spent) / budget);
  const state = part >= 100 ? "used-up" : part >= 80 ? "nearly" : "";
  const text = `${formatMoney(fromCredits(spent))} of ${formatMoney(fromCredits(budget))} monthly budget`;
  return html`
    <div
      class=${`gauge ${state}`}
      role="meter"
      aria-label="Monthly budget"
      aria-valuemin="0"
      aria-valuemax="100"
      aria-valuenow=${Math.round(part)}
      aria-valuetext=${text}
    >
      <div style=${{ width: `${part}%` }}></div>
    </div>
    <p class="hint">${text}</p>
  `;
}
