// What a chart shows: amounts of each part at each moment, of a usage report. No I/O, no DOM.

/** @import { Measure } from "../view.js" */

import { barHeight, formatFixed, formatMoney, fromCredits, parseDollars } from "../../money.js";
import { compactCount, count } from "../../parts/format.js";

/** @typedef {Pick<UsageReport["total"], "chargedCredits" | "inputTokens" | "outputTokens" | "cacheReadTokens" | "cacheWrite5mTokens" | "cacheWrite1hTokens" | "cacheSavingsUsd" | "cacheMissUsd">} Sums */

/**
 * How amounts of a measure are written; `height` and `mark` are those of the chart's axis. `adds`: the sum of all parts means something.
 * @typedef {{title: string, adds: boolean, format: (amount: bigint) => string, inColumn: (amount: bigint) => string,
 *   height: (amount: bigint) => number, mark: (value: number) => string}} Writing
 */

/**
 * The largest parts first. The part null is the sum of all further parts.
 * @typedef {{moments: string[], parts: (string | null)[], rows: bigint[][], totals: Map<string | null, bigint>, writing: Writing}} Amounts
 */

const MONEY = {
  format: formatMoney,
  inColumn: (/** @type {bigint} */ amount) => formatFixed(amount, 4),
  height: barHeight,
  // Labels of an axis are round numbers, so few decimals are exact.
  mark: (/** @type {number} */ value) =>
    `$${value >= 1000 ? value.toLocaleString("en-US") : Number(value.toPrecision(6))}`,
};
const TOKENS = {
  format: (/** @type {bigint} */ amount) => compactCount(Number(amount)),
  inColumn: (/** @type {bigint} */ amount) => count(Number(amount)),
  height: Number,
  mark: compactCount,
};

/** @type {Record<Measure, Writing>} */
const WRITINGS = {
  charged: { title: "Charged", adds: true, ...MONEY },
  tokens: { title: "Tokens", adds: true, ...TOKENS },
  cache: { title: "Saved and missed in the cache", adds: false, ...MONEY },
};

/**
 * The parts of measures that are not split by who or what used them.
 * @type {Record<Exclude<Measure, "charged">, Record<string, (sums: Sums) => bigint>>}
 */
const KINDS = {
  tokens: {
    "Cache reads": ({ cacheReadTokens }) => BigInt(cacheReadTokens),
    "Cache writes": ({ cacheWrite5mTokens, cacheWrite1hTokens }) => BigInt(cacheWrite5mTokens + cacheWrite1hTokens),
    "Other input": ({ inputTokens }) => BigInt(inputTokens),
    Output: ({ outputTokens }) => BigInt(outputTokens),
  },
  cache: {
    Saved: ({ cacheSavingsUsd }) => parseDollars(cacheSavingsUsd),
    "Paid for misses": ({ cacheMissUsd }) => parseDollars(cacheMissUsd),
  },
};

/**
 * @param {string[]} moments
 * @param {UsageReport} report grouped by moment and split
 * @param {Measure} measure
 * @returns {Amounts}
 */
export function amountsOf(moments, report, measure) {
  const items = report.items.flatMap((item) => ("split" in item ? [item] : []));
  const found = items.flatMap((item) => partsOf(item, measure).map((part) => ({ moment: item.group, ...part })));
  /** @type {Amounts["totals"]} */
  const totals = new Map();
  const totalOf = (/** @type {string | null} */ part) => totals.get(part) ?? 0n;
  for (const { part, amount } of found) totals.set(part, totalOf(part) + amount);
  const parts = [...totals.keys()].sort((one, other) => {
    if (one === null || other === null) return one === null ? 1 : -1;
    return Number(totalOf(other) - totalOf(one)) || (one < other ? -1 : 1);
  });
  const rows = moments.map(() => parts.map(() => 0n));
  const [rowOf, columnOf] = [indexes(moments), indexes(parts)];
  for (const { moment, part, amount } of found) {
    // Moments and parts are those of the report.
    rows[/** @type {number} */ (rowOf.get(moment))][/** @type {number} */ (columnOf.get(part))] += amount;
  }
  return { moments, parts, rows, totals, writing: WRITINGS[measure] };
}

/**
 * @param {Sums & {split: string | null}} item
 * @param {Measure} measure
 * @returns {{part: string | null, amount: bigint}[]}
 */
function partsOf(item, measure) {
  if (measure === "charged") return [{ part: item.split, amount: fromCredits(item.chargedCredits) }];
  return Object.entries(KINDS[measure]).map(([part, amountOf]) => ({ part, amount: amountOf(item) }));
}

/**
 * @template Value
 * @param {Value[]} values
 * @returns {Map<Value | null, number>}
 */
function indexes(values) {
  return new Map(values.map((value, index) => [value, index]));
}

/** @param {bigint[]} amounts */
export function sumOf(amounts) {
  return amounts.reduce((sum, amount) => sum + amount, 0n);
}
