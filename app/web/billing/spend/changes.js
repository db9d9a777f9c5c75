// What changed most against the period before, and the days that cost unusually much, in words.

/** @import { Show } from "../view.js" */
/** @import { Anomaly } from "./outliers.js" */
/** @import { LabelFor } from "./splits.js" */

import { html } from "../../html.js";
import { formatMoney, fromCredits } from "../../money.js";
import { percent } from "../../parts/format.js";
import { MIN_BASELINE } from "./outliers.js";

const MOST = 5;

/** @typedef {{part: string, change: number, now: number, before: number}} Mover amounts in credits */

/**
 * The parts whose charges changed most. A part that only one report lists had none in the other, unless that one
 * lists only its `top` most charged.
 * @param {UsageReport} now
 * @param {UsageReport} earlier
 * @param {number} top
 * @returns {Mover[]}
 */
export function moversOf(now, earlier, top) {
  const [after, before] = [now, earlier].map(
    ({ items }) =>
      new Map(items.flatMap(({ group, chargedCredits }) => (group === null ? [] : [[group, chargedCredits]]))),
  );
  const isKnown = (/** @type {Map<string, number>} */ in_, /** @type {string} */ part) =>
    in_.has(part) || in_.size < top;
  return [...new Set([...after.keys(), ...before.keys()])]
    .filter((part) => isKnown(after, part) && isKnown(before, part))
    .map((part) => ({ part, now: after.get(part) ?? 0, before: before.get(part) ?? 0 }))
    .map((each) => ({ ...each, change: each.now - each.before }))
    .filter(({ change }) => change !== 0)
    .sort((one, other) => Math.abs(other.change) - Math.abs(one.change))
    .slice(0, MOST);
}

/**
 * @param {object} props
 * @param {Mover[]} props.movers
 * @param {string} props.than the period before, in words
 * @param {LabelFor} props.labelFor
 * @param {(part: string) => void} props.choose
 */
export function Movers({ movers, than, labelFor, choose }) {
  return html`
    <section class="card" aria-labelledby="movers-title">
      <h2 id="movers-title">Changed most</h2>
      ${movers.length === 0 && html`<p class="hint">As much was charged for everything ${than}.</p>`}
      <ul class="changes">
        ${movers.map(
          ({ part, change, now, before }) => html`
            <li key=${part}>
              <button type="button" class="link" title="Show only this" onClick=${() => choose(part)}>${labelFor(part)}</button>${" "}
              <strong class=${change > 0 ? "more" : "less"}>${signed(change)}</strong>${" "}
              <span class="hint">${comparedWith(now, before)} ${than}</span>
            </li>
          `,
        )}
      </ul>
    </section>
  `;
}

/** @param {number} credits */
function signed(credits) {
  return `${credits > 0 ? "+" : ""}${formatMoney(fromCredits(credits))}`;
}

/** @param {number} now @param {number} before */
function comparedWith(now, before) {
  if (before <= 0) return `${formatMoney(fromCredits(now))}; nothing`;
  const change = `${percent(Math.abs(now - before), before)} ${now > before ? "more" : "less"} than`;
  return `${formatMoney(fromCredits(now))}, ${change} the ${formatMoney(fromCredits(before))}`;
}

/**
 * @param {object} props
 * @param {Anomaly[] | null} props.anomalies
 * @param {UsageReport} props.perMoment
 * @param {LabelFor} props.labelFor
 * @param {boolean} props.mayLimit
 * @param {Show} props.show
 */
export function Anomalies({ anomalies: known, perMoment, labelFor, mayLimit, show }) {
  const anomalies = known ?? [];
  return html`
    <section class="card" aria-labelledby="anomalies-title">
      <h2 id="anomalies-title">Unusual days</h2>
      ${known === null && html`<p class="hint">A day is compared with those before it once ${MIN_BASELINE} of them have charges.</p>`}
      ${known?.length === 0 && html`<p class="calm">No day cost far more than the 28 days before it.</p>`}
      <ul class="changes">
        ${anomalies
          .toSorted((one, other) => other.charged - one.charged)
          .slice(0, MOST)
          .map(
            ({ day, charged, usual }) => html`
              <li key=${day}>
                <button
                  type="button"
                  class="link"
                  title="Show the hours of this day"
                  onClick=${() => show({ period: "custom", from: day, to: day, unit: "hour" })}
                >
                  ${day}
                </button>${" "}
                <strong class="more">${formatMoney(fromCredits(charged))}</strong>${" "}
                <span class="hint">
                  ${(charged / usual).toFixed(1)} times the usual ${formatMoney(fromCredits(Math.round(usual)))}${mostOf(perMoment, day, labelFor)}
                </span>
              </li>
            `,
          )}
      </ul>
      ${
        anomalies.length > 0 &&
        html`<p class="hint">
          Usual is the median of the 28 days before. Look at the hours of the day and at their receipts to find what ran; if it was not
          wanted, ${mayLimit ? html`limit it with <a href="./console?view=budgets">a budget</a>` : "have it limited with a budget"}.
        </p>`
      }
    </section>
  `;
}

/**
 * The part that was charged most on a day.
 * @param {UsageReport} report
 * @param {string} day
 * @param {LabelFor} labelFor
 */
function mostOf(report, day, labelFor) {
  /** @type {Map<string, number>} */
  const charged = new Map();
  for (const item of report.items) {
    if (!("split" in item) || item.split === null || !item.group?.startsWith(day)) continue;
    charged.set(item.split, (charged.get(item.split) ?? 0) + item.chargedCredits);
  }
  const [most] = [...charged].sort(([, one], [, other]) => other - one);
  return most ? `, mostly of ${labelFor(most[0])} (${formatMoney(fromCredits(most[1]))})` : "";
}
