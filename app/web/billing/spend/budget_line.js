// The budget that limits what a chart shows, as an amount of each of its moments. No I/O, no DOM.

/** @import { Unit, View } from "../view.js" */

import { formatMoney, parseDollars } from "../../money.js";
import { WINDOWS } from "../../parts/budget_bar.js";

const HOURS = { hour: 1n, day: 24n };
const HOURS_OF_MONTH = 730n;

/** @typedef {{amount: bigint, words: string}} BudgetLine in ten-billionths of a dollar */

/**
 * The lowest one of those that limit exactly what the view's filters choose, spread evenly over its window.
 * @param {Schemas["BudgetResponse"][]} budgets
 * @param {View} view
 * @param {Unit} unit
 * @returns {BudgetLine | null}
 */
export function budgetLine(budgets, view, unit) {
  const { model, graph, key, endUser, tag } = view;
  const chosen = Object.entries({ model, graph, key, endUser, tag: tag.replace(":", "=") }).filter(
    ([, value]) => value,
  );
  if (chosen.length > 1) return null;
  const [scope, value] = chosen[0] ?? ["account", null];
  const lines = budgets.flatMap((budget) => {
    const limits = budget.scope === scope && (budget.match === null || budget.match === value);
    return limits ? lineOf(budget, unit) : [];
  });
  return lines.sort((one, other) => Number(one.amount - other.amount))[0] ?? null;
}

/**
 * @param {Schemas["BudgetResponse"]} budget
 * @param {Unit} unit
 * @returns {BudgetLine[]}
 */
function lineOf({ id, usd, window }, unit) {
  if (usd === null || window === "total" || (window === "hour" && unit === "day")) return [];
  const limit = parseDollars(usd);
  const amount = (limit * HOURS[unit]) / (window === "month" ? HOURS_OF_MONTH : HOURS[window]);
  const share = window === unit ? "" : `, ${formatMoney(amount)} ${WINDOWS[unit]} if spread evenly`;
  return [{ amount, words: `Budget ${id}: ${formatMoney(limit)} ${WINDOWS[window]}${share}` }];
}
