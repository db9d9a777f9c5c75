// The sums of a period, and what the account has left.

import { html } from "../html.js";
import { exactMoney, money, ofCredits, ofDollars } from "../money.js";
import { count, percent, roughly } from "./figures.js";

export function Totals({ total, balance }) {
  const charged = ofCredits(total.chargedCredits);
  const saved = ofDollars(total.cacheSavingsUsd);
  const written = total.cacheWrite5mTokens + total.cacheWrite1hTokens;
  const prompt = total.inputTokens + total.cacheReadTokens + written;
  return html`
    <section aria-label="Totals" class="totals">
      <${Figure} label="Charged" value=${money(charged)} exact=${exactMoney(charged)}>
        ${money(ofDollars(total.costUsd))} at the provider’s prices
      <//>
      <${Figure} label="Saved by the cache" value=${money(saved)} exact=${exactMoney(saved)}>
        ${percent(total.cacheReadTokens, prompt)} of prompt tokens were read from it
      <//>
      <${Figure} label="Messages" value=${roughly(total.receipts)} exact=${count(total.receipts)}>
        ${roughly(prompt)} tokens in, ${roughly(total.outputTokens)} out
      <//>
      <${Balance} balance=${balance} />
    </section>
  `;
}

function Figure({ label, value, exact, children }) {
  return html`
    <div class="figure">
      <h2>${label}</h2>
      <p class="figure-value" title=${exact}>${value}</p>
      <p class="hint">${children}</p>
    </div>
  `;
}

function Balance({ balance }) {
  const prepaid = balance.mode === "prepaid";
  const left = ofCredits(balance.left);
  const month = ofCredits(balance.monthSpent);
  if (!prepaid && balance.monthlyBudget === null) {
    return html`
      <${Figure} label="This month" value=${money(month)} exact=${exactMoney(month)}>
        Postpaid, without a budget${balance.granted > 0 && html`; ${money(left)} of credit left`}
      <//>
    `;
  }
  const available = ofCredits(Math.max(balance.available, 0));
  return html`
    <div class="figure">
      <h2>${prepaid ? "Credit left" : "Available this month"}</h2>
      <p class="figure-value" title=${exactMoney(prepaid ? left : available)}>${money(prepaid ? left : available)}</p>
      ${balance.monthlyBudget !== null && html`<${Budget} spent=${balance.monthSpent} budget=${balance.monthlyBudget} />`}
      <p class="hint">
        ${prepaid && html`${money(available)} for new runs`}
        ${balance.reserved > 0 && html`${prepaid ? ", " : ""}${money(ofCredits(balance.reserved))} set aside`}
      </p>
    </div>
  `;
}

function Budget({ spent, budget }) {
  const part = budget === 0 ? 100 : Math.min(100, (100 * spent) / budget);
  const state = part >= 100 ? "used-up" : part >= 80 ? "nearly" : "";
  const said = `${money(ofCredits(spent))} of ${money(ofCredits(budget))} monthly budget`;
  return html`
    <div
      class=${`gauge ${state}`}
      role="meter"
      aria-label="Monthly budget"
      aria-valuemin="0"
      aria-valuemax="100"
      aria-valuenow=${Math.round(part)}
      aria-valuetext=${said}
    >
      <div style=${{ width: `${part}%` }}></div>
    </div>
    <p class="hint">${said}</p>
  `;
}
