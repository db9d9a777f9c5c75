// Charges per day or hour, split by who or what used them: chart, table, sums and changes.

/** @import { Session } from "../../shell.js" */
/** @import { Amounts } from "./amounts.js" */
/** @import { Anomaly } from "./outliers.js" */
/** @import { LabelFor } from "./splits.js" */
/** @import { Days, Show, Unit, View } from "../view.js" */

import { html, useLayoutEffect, useMemo, useState, withValue } from "../../html.js";
import { formatExact, formatFixed, fromCredits, parseDollars } from "../../money.js";
import { count, percent } from "../../parts/format.js";
import { eachOf, linkTo } from "../view.js";
import { amountsOf, sumOf } from "./amounts.js";
import { budgetLine } from "./budget_line.js";
import { Anomalies, Movers, moversOf } from "./changes.js";
import { Chart, momentName, scaleOf } from "./chart.js";
import { onlyPart, SPLITS, tagOf, wordsOf } from "./splits.js";

const MOST_CUT = 5;

/**
 * @typedef {object} Spending
 * @property {View} view
 * @property {Show} show
 * @property {Session} who
 * @property {Days & {unit: Unit}} days
 * @property {UsageReport} perMoment
 * @property {UsageReport} perPart
 * @property {UsageReport} earlier the same of the period before
 * @property {number} top how many end users or values of a tag both list
 * @property {string} than the period before, in words
 * @property {Anomaly[] | null} anomalies null if too few days are known
 * @property {Schemas["BudgetResponse"][]} budgets
 * @property {LabelFor} labelFor
 */

/** @param {Spending} props */
export function Spend({ view, show, who, days, perMoment, perPart, earlier, top, than, anomalies, budgets, labelFor }) {
  const { unit } = days;
  // The responses may be those of the view before.
  const split = perMoment.splitBy ?? view.split;
  const amounts = useMemo(
    () => amountsOf(eachOf(days, unit), perMoment, view.measure),
    [days.first, days.last, unit, perMoment, view.measure],
  );
  const isCharged = view.measure === "charged";
  const budget = isCharged ? budgetLine(budgets, view, unit) : null;
  const marked = isCharged && unit === "day" ? (anomalies ?? []).map(({ day }) => amounts.moments.indexOf(day)) : [];
  const partName = isCharged ? labelFor : (/** @type {string | null} */ part) => part ?? "";
  return html`
    <section class="card spend" aria-labelledby="spend-title">
      <div class="section-head">
        <h2 id="spend-title">${amounts.writing.title} per ${unit}</h2>
        <div class="row">
          <${Segments} name="measure" label="Show" options=${MEASURES} view=${view} show=${show} />
          <${Segments} name="unit" label="Per" options=${UNITS} view=${{ unit }} show=${show} />
        </div>
      </div>
      <div class="splits">
        <${Segments} name="split" label="Split by" options=${splitsFor(who)} view=${view} show=${show} />
        <${TagField} split=${view.split} show=${show} />
      </div>
      ${
        perMoment.total.receipts === 0
          ? html`<${Nothing} view=${view} />`
          : html`
            <${Chart} ...${{ amounts, budget, marked }} whole=${view.axis === "whole"} labelFor=${partName} />
            <${Legend} ...${{ amounts, view, show }} budget=${budget?.words} hasMarks=${marked.length > 0} labelFor=${partName} />
            <${Parts} ...${{ split, show, perPart, earlier, amounts, labelFor, isCharged }} />
            <details class="as-table">
              <summary>Show each ${unit} as a table</summary>
              <${MomentsTable} amounts=${amounts} unit=${unit} labelFor=${partName} />
            </details>
          `
      }
    </section>
    <div class="beside">
      <${Movers}
        movers=${moversOf(perPart, earlier, top)}
        than=${than}
        labelFor=${labelFor}
        choose=${(/** @type {string} */ part) => show(onlyPart(split, part, labelFor))}
      />
      <${Anomalies} ...${{ anomalies, perMoment, labelFor, show }} mayLimit=${who.may("budgets:write")} />
    </div>
  `;
}

/** @type {[string, string][]} */
const MEASURES = [
  ["charged", "Charges"],
  ["tokens", "Tokens"],
  ["cache", "Cache"],
];
/** @type {[string, string][]} */
const UNITS = [
  ["day", "Day"],
  ["hour", "Hour"],
];

/** @param {Session} who @returns {[string, string][]} */
function splitsFor(who) {
  return [...SPLITS].flatMap(([name, [label]]) => (name !== "account" || who.may("admin") ? [[name, label]] : []));
}

/**
 * @param {object} props
 * @param {"measure" | "unit" | "split"} props.name
 * @param {string} props.label
 * @param {[string, string][]} props.options
 * @param {Partial<View>} props.view
 * @param {Show} props.show
 */
function Segments({ name, label: of, options, view, show }) {
  return html`
    <div class="segments" role="group" aria-label=${of}>
      ${options.map(
        ([option, label]) => html`
          <button type="button" aria-pressed=${view[name] === option} onClick=${() => show({ [name]: option })}>${label}</button>
        `,
      )}
    </div>
  `;
}

/** @param {{split: string, show: Show}} props */
function TagField({ split, show }) {
  const [name, setName] = useState(tagOf(split) ?? "");
  useLayoutEffect(() => setName(tagOf(split) ?? ""), [split]);
  const choose = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (name !== "") show({ split: `tag:${name}` });
  };
  return html`
    <form class="row field" onSubmit=${choose}>
      <input
        class="tag-name"
        aria-label="Split by the tag"
        placeholder="tag"
        pattern="[A-Za-z][A-Za-z0-9_.\\-]{0,63}"
        title="The name of a tag"
        value=${name}
        autocomplete="off"
        autocapitalize="off"
        spellcheck=${false}
        onInput=${withValue(setName)}
      />
      <button class="button button-small" aria-pressed=${tagOf(split) !== undefined}>By tag</button>
    </form>
  `;
}

/**
 * What the chart does not say by itself: the budget's line, what is cut off, what is marked.
 * @param {{amounts: Amounts, view: View, show: Show, budget: string | undefined, hasMarks: boolean, labelFor: LabelFor}} props
 */
function Legend({ amounts, view, show, budget, hasMarks, labelFor }) {
  const { moments, rows, writing, parts } = amounts;
  const { cut } = scaleOf(amounts, view.axis === "whole");
  const highest = cut.sort((one, other) => Number(sumOf(rows[other]) - sumOf(rows[one]))).slice(0, MOST_CUT);
  const named = highest.map((index) => `${momentName(moments[index])} (${writing.format(sumOf(rows[index]))})`);
  return html`
    <div class="legend hint">
      ${
        view.measure !== "charged" &&
        parts.map(
          (part, index) =>
            html`<p><span class=${`swatch swatch-${index}`} aria-hidden="true"></span>${labelFor(part)}</p>`,
        )
      }
      ${budget && html`<p><span class="swatch-line" aria-hidden="true"></span>${budget}</p>`}
      ${hasMarks && html`<p><span class="swatch-mark" aria-hidden="true">●</span>unusual, see below</p>`}
      ${
        cut.length > 0 &&
        html`<p>
          Cut off, because ${cut.length === 1 ? "it is" : "they are"} far above the others: ${named.join(", ")}${cut.length > MOST_CUT && ` and ${count(cut.length - MOST_CUT)} more`}.${" "}
          <button type="button" class="link" onClick=${() => show({ axis: "whole" })}>Show in full</button>
        </p>`
      }
      ${view.axis === "whole" && html`<p><button type="button" class="link" onClick=${() => show({ axis: "usual" })}>Cut off what is far above the others</button></p>`}
    </div>
  `;
}

/** @param {{view: View}} props */
function Nothing({ view }) {
  const filtered = view.model || view.graph || view.key || view.endUser || view.tag;
  const { period, from, to, split, account } = view;
  return html`
    <div class="empty">
      <p><strong>Nothing was charged${filtered ? " for these filters" : ""} in this period.</strong></p>
      <p class="hint">
        ${
          filtered
            ? html`<a href=${linkTo({ period, from, to, split, account })}>Take the filters away</a>, or choose another period.`
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
 * @param {string} props.split
 * @param {Show} props.show
 * @param {UsageReport} props.perPart
 * @param {UsageReport} props.earlier
 * @param {Amounts} props.amounts
 * @param {LabelFor} props.labelFor
 * @param {boolean} props.isCharged whether the chart has the colours of these parts
 */
function Parts({ split, show, perPart, earlier, amounts, labelFor, isCharged }) {
  const before = new Map(earlier.items.map(({ group, chargedCredits }) => [group, chargedCredits]));
  const used = new Set(perPart.items.map(({ group }) => group));
  const gone = earlier.items.flatMap(({ group }) => (used.has(group) ? [] : [{ ...NO_CHARGES, group }]));
  const items = [...perPart.items, ...gone].sort((one, other) => other.chargedCredits - one.chargedCredits);
  /** @type {Map<string | null, string | number>} */
  const colour = new Map(amounts.parts.map((part, index) => [part, part === null ? "other" : index]));
  return html`
    <div class="scroll-x" role="region" aria-label=${`Sums by ${split}`} tabindex="0">
      <table class="figures">
        <caption class="visually-hidden">Sums of the period by ${split}, the most charged first</caption>
        <thead>
          <tr>
            <th scope="col">${wordsOf(split)[0]}</th>
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
                  ${isCharged && html`<span class=${`swatch swatch-${colour.get(item.group) ?? "other"}`} aria-hidden="true"></span>`}
                  <${Part} part=${item.group} labelFor=${labelFor} choose=${(/** @type {string} */ part) => show(onlyPart(split, part, labelFor))} />
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

/**
 * What was charged for all others cannot be chosen.
 * @param {{part: string | null, labelFor: LabelFor, choose: (part: string) => void}} props
 */
function Part({ part, labelFor, choose }) {
  if (part === null) return labelFor(part);
  return html`<button type="button" class="link" title="Show only this" onClick=${() => choose(part)}>${labelFor(part)}</button>`;
}

/** @param {number} credits */
function changeOf(credits) {
  return `${credits > 0 ? "+" : ""}${formatFixed(fromCredits(credits), 4)}`;
}

/** @param {{amounts: Amounts, unit: Unit, labelFor: LabelFor}} props */
function MomentsTable({ amounts: { moments, parts, rows, writing }, unit, labelFor }) {
  const newestFirst = moments.map((moment, index) => ({ moment, row: rows[index] })).reverse();
  const used = newestFirst.filter(({ row }) => row.some((amount) => amount > 0n));
  return html`
    <div class="scroll-x" role="region" aria-label=${`Each ${unit}`} tabindex="0">
      <table class="figures">
        <caption class="visually-hidden">${writing.title} of each ${unit} with any, newest first</caption>
        <thead>
          <tr>
            <th scope="col">${unit === "day" ? "Day" : "Hour"} (UTC)</th>
            ${parts.map((part) => html`<th scope="col" class="number">${labelFor(part)}</th>`)}
            ${writing.adds && html`<th scope="col" class="number">All</th>`}
          </tr>
        </thead>
        <tbody>
          ${used.map(
            ({ moment, row }) => html`
              <tr key=${moment}>
                <th scope="row">${momentName(moment)}</th>
                ${row.map((amount) => html`<td class="number">${writing.inColumn(amount)}</td>`)}
                ${writing.adds && html`<td class="number">${writing.inColumn(sumOf(row))}</td>`}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}
