// Charges per day, split by model, graph or key: chart, table and sums.

/** @import { DayTable, LabelFor } from "./chart.js" */
/** @import { KeyName } from "./receipts.js" */
/** @import { Days, Show, Split, View } from "./view.js" */

import { html, useMemo } from "../html.js";
import { formatExact, formatFixed, fromCredits, parseDollars } from "../money.js";
import { count, percent } from "../parts/format.js";
import { Chart } from "./chart.js";
import { eachDay, linkTo } from "./view.js";

/** @type {[Split, string, string][]} */
const SPLITS = [
  ["model", "Model", "models"],
  ["graph", "Graph", "graphs"],
  ["key", "API key", "keys"],
];

/**
 * @param {object} props
 * @param {View} props.view
 * @param {Show} props.show
 * @param {Days} props.days
 * @param {UsageReport} props.perDay
 * @param {UsageReport} props.perPart
 * @param {UsageReport} props.earlier the same of the period before
 * @param {KeyName} props.keyName
 */
export function Spend({ view, show, days, perDay, perPart, earlier, keyName }) {
  const split = perDay.splitBy;
  /** @type {LabelFor} */
  const labelFor = (part) => (part === null ? `Other ${pluralOf(split)}` : split === "key" ? keyName(part) : part);
  const table = useMemo(() => amountsPerDay(days, perDay), [days.first, days.last, perDay]);
  return html`
    <section class="card spend" aria-labelledby="spend-title">
      <div class="section-head">
        <h2 id="spend-title">Charged per day</h2>
        <div class="segments" role="group" aria-label="Split by">
          ${SPLITS.map(
            ([name, label]) => html`
              <button type="button" aria-pressed=${view.split === name} onClick=${() => show({ split: name })}>
                ${label}
              </button>
            `,
          )}
        </div>
      </div>
      ${
        perDay.total.receipts === 0
          ? html`<${Nothing} view=${view} />`
          : html`
            <${Chart} table=${table} labelFor=${labelFor} />
            <${Parts} ...${{ split, show, perPart, earlier, table, labelFor }} />
            <details class="as-table">
              <summary>Show each day as a table</summary>
              <${DaysTable} table=${table} labelFor=${labelFor} />
            </details>
          `
      }
    </section>
  `;
}

/** @param {UsageReport["splitBy"]} split */
function pluralOf(split) {
  return SPLITS.find(([name]) => name === split)?.[2];
}

/**
 * @param {Days} days
 * @param {UsageReport} perDay
 * @returns {DayTable}
 */
function amountsPerDay(days, perDay) {
  const names = eachDay(days);
  const amounts = perDay.items.flatMap((item) => ("split" in item ? [item] : []));
  /** @type {DayTable["totals"]} */
  const totals = new Map();
  const totalOf = (/** @type {string | null} */ part) => totals.get(part) ?? 0n;
  for (const { split, chargedCredits } of amounts) totals.set(split, totalOf(split) + BigInt(chargedCredits));
  const parts = [...totals.keys()].sort((one, other) => {
    if (one === null || other === null) return one === null ? 1 : -1;
    return Number(totalOf(other) - totalOf(one)) || (one < other ? -1 : 1);
  });
  const rows = names.map(() => parts.map(() => 0n));
  for (const { group, split, chargedCredits } of amounts) {
    // Days are always named.
    rows[names.indexOf(/** @type {string} */ (group))][parts.indexOf(split)] = BigInt(chargedCredits);
  }
  return { days: names, parts, rows, totals };
}

/** @param {{view: View}} props */
function Nothing({ view }) {
  const filtered = view.model || view.graph || view.key;
  return html`
    <div class="empty">
      <p><strong>Nothing was charged${filtered ? " for these filters" : ""} in this period.</strong></p>
      <p class="hint">
        ${
          filtered
            ? html`<a href=${linkTo({ period: view.period, from: view.from, to: view.to, split: view.split })}>
              Take the filters away</a
            >, or choose another period.`
            : html`Every message of a run shows up here a moment after it was answered. <a href="./">Start one in the chat.</a>`
        }
      </p>
    </div>
  `;
}

/** A part of which nothing was charged. */
const NO_CHARGES = { chargedCredits: 0, receipts: 0, cacheSavingsUsd: "0", cacheMissUsd: "0" };

/**
 * @param {object} props
 * @param {Split} props.split
 * @param {Show} props.show
 * @param {UsageReport} props.perPart
 * @param {UsageReport} props.earlier
 * @param {DayTable} props.table
 * @param {LabelFor} props.labelFor
 */
function Parts({ split, show, perPart, earlier, table, labelFor }) {
  const before = new Map(earlier.items.map(({ group, chargedCredits }) => [group, chargedCredits]));
  const used = new Set(perPart.items.map(({ group }) => group));
  const gone = earlier.items.flatMap(({ group }) => (used.has(group) ? [] : [{ ...NO_CHARGES, group }]));
  const items = [...perPart.items, ...gone].sort((one, other) => other.chargedCredits - one.chargedCredits);
  /** @type {Map<string | null, string | number>} */
  const colour = new Map(table.parts.map((part, index) => [part, part === null ? "other" : index]));
  return html`
    <div class="scroll-x" role="region" aria-label=${`Sums by ${split}`} tabindex="0">
      <table class="figures">
        <caption class="visually-hidden">Sums of the period by ${split}, the most charged first</caption>
        <thead>
          <tr>
            <th scope="col">${SPLITS.find(([name]) => name === split)?.[1]}</th>
            <th scope="col" class="number">Charged</th>
            <th scope="col" class="number">Share</th>
            <th scope="col" class="number">Messages</th>
            <th scope="col" class="number">Saved by the cache</th>
            <th scope="col" class="number">Missed in the cache</th>
            <th scope="col" class="number" title="Charged more or less than in the period before">Change</th>
          </tr>
        </thead>
        <tbody>
          ${items.map(
            (item) => html`
              <tr key=${item.group}>
                <th scope="row">
                  <span class=${`swatch swatch-${colour.get(item.group) ?? "other"}`} aria-hidden="true"></span>
                  <button
                    type="button"
                    class="link"
                    title="Show only this"
                    onClick=${() => show({ [split]: item.group })}
                  >
                    ${labelFor(item.group)}
                  </button>
                </th>
                <td class="number" title=${formatExact(fromCredits(item.chargedCredits))}>
                  ${formatFixed(fromCredits(item.chargedCredits), 4)}
                </td>
                <td class="number">${percent(item.chargedCredits, perPart.total.chargedCredits)}</td>
                <td class="number">${count(item.receipts)}</td>
                <td class="number">${formatFixed(parseDollars(item.cacheSavingsUsd), 4)}</td>
                <td class="number">${formatFixed(parseDollars(item.cacheMissUsd), 4)}</td>
                <td class="number">${changeOf(item.chargedCredits - (before.get(item.group) ?? 0))}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}

/** @param {number} credits */
function changeOf(credits) {
  return `${credits > 0 ? "+" : ""}${formatFixed(fromCredits(credits), 4)}`;
}

/** @param {{table: DayTable, labelFor: LabelFor}} props */
function DaysTable({ table, labelFor }) {
  const newestFirst = table.days.map((day, index) => ({ day, row: table.rows[index] })).reverse();
  const used = newestFirst.filter(({ row }) => row.some((credits) => credits > 0n));
  return html`
    <div class="scroll-x" role="region" aria-label="Each day" tabindex="0">
      <table class="figures">
        <caption class="visually-hidden">Charged on each day on which something was, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Day (UTC)</th>
            ${table.parts.map((part) => html`<th scope="col" class="number">${labelFor(part)}</th>`)}
            <th scope="col" class="number">All</th>
          </tr>
        </thead>
        <tbody>
          ${used.map(
            ({ day, row }) => html`
              <tr key=${day}>
                <th scope="row">${day}</th>
                ${row.map((credits) => html`<td class="number">${formatFixed(fromCredits(credits), 4)}</td>`)}
                <td class="number">${formatFixed(fromCredits(row.reduce((sum, credits) => sum + credits, 0n)), 4)}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}
