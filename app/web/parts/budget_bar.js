// How much of a budget is used, as a bar.

import { html } from "../html.js";
import { formatMoney, parseDollars } from "../money.js";
import { compactCount } from "./format.js";

export const WINDOWS = { hour: "an hour", day: "a day", month: "a month", total: "in total" };

/** @param {{budget: Schemas["BudgetResponse"]}} props */
export function BudgetBar({ budget }) {
  const { id, value, usd, tokens, spentUsd, spentTokens } = budget;
  const [spent, limit] = usd === null ? [spentTokens, tokens ?? 0] : [Number(spentUsd), Number(usd)];
  const part = limit === 0 ? 100 : Math.min(100, (100 * spent) / limit);
  const state = part >= 100 ? "used-up" : part >= 80 ? "nearly" : "";
  const amounts =
    usd === null
      ? `${compactCount(spentTokens)} of ${compactCount(tokens ?? 0)} tokens`
      : `${formatMoney(parseDollars(spentUsd))} of ${formatMoney(parseDollars(usd))}`;
  const name = value === null ? id : `${id} (${value})`;
  const text = `${amounts} ${WINDOWS[budget.window]}`;
  return html`
    <div
      class=${`gauge ${state}`}
      role="meter"
      aria-label=${`Budget ${name}`}
      aria-valuemin="0"
      aria-valuemax="100"
      aria-valuenow=${Math.round(part)}
      aria-valuetext=${text}
    >
      <div style=${{ width: `${part}%` }}></div>
    </div>
    <p class="hint"><bdi>${name}</bdi>: ${text}</p>
  `;
}
