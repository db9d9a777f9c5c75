// The totals of a period, and the account's balance.

/** @import { ComponentChildren } from "../vendor/preact.js" */

import { html } from "../html.js";
import { formatExact, formatMoney, fromCredits, parseDollars } from "../money.js";
import { BudgetBar } from "../parts/budget_bar.js";
import { compactCount, count, percent } from "../parts/format.js";

/** @typedef {{name: string, total: UsageReport["total"]}} Earlier what the period is compared with */

/**
 * `passed` is the part of the month that has passed, if the period is this month.
 * @param {object} props
 * @param {UsageReport["total"]} props.total
 * @param {Earlier} props.earlier
 * @param {[number, number] | null} props.passed
 * @param {Schemas["BalanceResponse"] | null} props.balance null if the totals are of all accounts
 * @param {Schemas["BudgetResponse"][]} props.budgets
 */
export function Totals({ total, earlier, passed, balance, budgets }) {
  const charged = fromCredits(total.chargedCredits);
  const saved = parseDollars(total.cacheSavingsUsd);
  const written = total.cacheWrite5mTokens + total.cacheWrite1hTokens;
  const prompt = total.inputTokens + total.cacheReadTokens + written;
  return html`
    <section aria-label="Totals" class="totals">
      <${Figure} label="Charged" value=${formatMoney(charged)} exact=${formatExact(charged)}>
        ${formatMoney(parseDollars(total.costUsd))} at the provider’s prices; ${trend(total, earlier)}
        ${passed && total.chargedCredits > 0 && html`. ${forecast(charged, passed)}`}
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
      ${balance && html`<${Balance} balance=${balance} budgets=${budgets} />`}
    </section>
  `;
}

/** @param {UsageReport["total"]} total @param {Earlier} earlier */
function trend({ chargedCredits: now }, { name, total: { chargedCredits: before } }) {
  if (before <= 0) return `${formatMoney(fromCredits(before))} ${name}`;
  if (now === before) return `as much ${name}`;
  const change = percent(Math.abs(now - before), before);
  return `${change} ${now > before ? "more" : "less"} than ${name} (${formatMoney(fromCredits(before))})`;
}

/** @param {bigint} charged @param {[number, number]} passed */
function forecast(charged, [passed, all]) {
  return `At this pace, ${formatMoney((charged * BigInt(all)) / BigInt(passed))} by the end of the month`;
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

/** @param {{balance: Schemas["BalanceResponse"], budgets: Schemas["BudgetResponse"][]}} props */
function Balance({ balance, budgets }) {
  const prepaid = balance.mode === "prepaid";
  const left = fromCredits(balance.left);
  const shown = prepaid ? left : fromCredits(balance.monthSpent);
  const available = fromCredits(Math.max(balance.available ?? 0, 0));
  return html`
    <div class="figure">
      <h2>${prepaid ? "Credit left" : "This month"}</h2>
      <p class="figure-value" title=${formatExact(shown)}>${formatMoney(shown)}</p>
      ${budgets.map((budget) => html`<${BudgetBar} key=${budget.id} budget=${budget} />`)}
      <p class="hint">
        ${prepaid && html`${formatMoney(available)} for new runs`}
        ${!prepaid && budgets.length === 0 && "Postpaid, without a budget"}
        ${!prepaid && balance.granted > 0 && html`; ${formatMoney(left)} of credit left`}
        ${balance.reserved > 0 && html`, ${formatMoney(fromCredits(balance.reserved))} set aside`}
      </p>
    </div>
  `;
}
