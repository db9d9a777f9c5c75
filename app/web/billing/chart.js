// A chart of stacked bars per day, drawn by uPlot.

import { html, useEffect, useRef, useState } from "../html.js";
import { barHeight, formatMoney, fromCredits } from "../money.js";
import uPlot from "../vendor/uplot.js";

const DAY_S = 86_400;
const TICKS_S = [1, 2, 5, 7, 14, 30, 61, 91].map((days) => days * DAY_S);
const HEIGHT = 260;
const DARK = matchMedia("(prefers-color-scheme: dark)");

/**
 * Credits of each part, the most charged first, on each day. The part null is the sum of all further parts.
 * @typedef {{days: string[], parts: (string | null)[], rows: bigint[][], totals: Map<string | null, bigint>}} DayTable
 */

/** @typedef {(part: string | null) => string} LabelFor */

/** @typedef {{index: number, left: string, right: string}} Pointed a day, and the position of its label */
/** @typedef {(pointed: Pointed | null) => void} Point */

/**
 * The page shows `table` as a table, too.
 * @param {{table: DayTable, labelFor: LabelFor}} props
 */
export function Chart({ table, labelFor }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [pointed, point] = useState(/** @type {Pointed | null} */ (null));
  const [dark, setDark] = useState(DARK.matches);

  useEffect(() => {
    const changed = () => setDark(DARK.matches);
    DARK.addEventListener("change", changed);
    return () => DARK.removeEventListener("change", changed);
  }, []);
  useEffect(() => {
    const room = place.current;
    if (room === null) return;
    const plot = new uPlot(options(room, table, point), stacked(table), room);
    const watch = new ResizeObserver(() => plot.setSize({ width: room.clientWidth, height: HEIGHT }));
    watch.observe(room);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [table, dark]);

  return html`
    <div class="chart">
      <div ref=${place} class="chart-place" role="img" aria-label=${summary(table, labelFor)}></div>
      ${
        pointed !== null &&
        pointed.index < table.days.length &&
        html`<${Tip} table=${table} pointed=${pointed} labelFor=${labelFor} />`
      }
    </div>
  `;
}

/** @param {{table: DayTable, pointed: Pointed, labelFor: LabelFor}} props */
function Tip({ table, pointed: { index, left, right }, labelFor }) {
  const row = table.rows[index];
  const all = row.reduce((sum, credits) => sum + credits, 0n);
  return html`
    <div class="tip" aria-hidden="true" style=${{ left, right }}>
      <p class="tip-day">${table.days[index]} <strong>${formatMoney(fromCredits(all))}</strong></p>
      ${table.parts.map(
        (part, column) =>
          row[column] > 0n &&
          html`<p>
            <span class=${`swatch swatch-${part === null ? "other" : column}`}></span>
            <span class="tip-label">${labelFor(part)}</span>
            <span>${formatMoney(fromCredits(row[column]))}</span>
          </p>`,
      )}
    </div>
  `;
}

/** @param {DayTable} table @param {LabelFor} labelFor */
function summary(table, labelFor) {
  const sums = table.parts.map((part) => `${labelFor(part)} ${formatMoney(fromCredits(table.totals.get(part) ?? 0n))}`);
  return `Charged per day from ${table.days[0]} to ${table.days.at(-1)}. ${sums.join(", ")}. Each day stands in the table below.`;
}

/**
 * uPlot does not stack: each series is the sum of itself and those below, and the highest is drawn first.
 * @param {DayTable} table
 * @returns {uPlot.AlignedData}
 */
function stacked(table) {
  const days = table.days.map((day) => Date.parse(day) / 1000);
  const sums = table.rows.map(() => 0n);
  const heights = table.parts.map((_, column) =>
    table.rows.map((row, index) => {
      sums[index] += row[column];
      return barHeight(fromCredits(sums[index]));
    }),
  );
  return [days, ...heights.reverse()];
}

/**
 * @param {HTMLElement} place
 * @param {DayTable} table
 * @param {Point} point
 * @returns {uPlot.Options}
 */
function options(place, table, point) {
  const style = getComputedStyle(place);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const font = `12px ${style.fontFamily}`;
  const axis = { font, stroke: colour("--muted"), ticks: { show: false } };
  const [firstDay, lastDay] = [table.days[0], table.days[table.days.length - 1]];
  const [first, last] = [Date.parse(firstDay) / 1000 - DAY_S / 2, Date.parse(lastDay) / 1000 + DAY_S / 2];
  return {
    width: place.clientWidth,
    height: HEIGHT,
    padding: [12, 12, 0, 0],
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: () => [first, last] },
      y: { range: (_, __, highest) => [0, highest * 1.08 || 1] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 34,
        space: 56,
        incrs: TICKS_S,
        values: (_, marks) => marks.map(dayAndMonth),
      },
      { ...axis, grid: { stroke: colour("--line"), width: 1 }, size: 60, values: (_, marks) => marks.map(dollars) },
    ],
    series: [
      {},
      ...table.parts
        .map((part, index) => ({
          fill: colour(part === null ? "--part-other" : `--part-${index}`),
          width: 0,
          points: { show: false },
          paths: uPlot.paths.bars?.({ size: [0.72, 44], radius: 0.08 }),
        }))
        .reverse(),
    ],
    hooks: { setCursor: [(plot) => point(pointedAt(plot))] },
  };
}

/**
 * @param {uPlot} plot
 * @returns {Pointed | null}
 */
function pointedAt(plot) {
  const { idx = null, left = -1 } = plot.cursor;
  if (idx === null || left < 0) return null;
  const at = plot.over.offsetLeft + left;
  const width = plot.root.clientWidth;
  return at < width / 2
    ? { index: idx, left: `${at + 14}px`, right: "auto" }
    : { index: idx, left: "auto", right: `${width - at + 14}px` };
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** @param {number} seconds */
function dayAndMonth(seconds) {
  const date = new Date(seconds * 1000);
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
}

/**
 * Axis labels; they are round numbers, so few decimals are exact.
 * @param {number} mark
 */
function dollars(mark) {
  return `$${mark >= 1000 ? mark.toLocaleString("en-US") : Number(mark.toPrecision(6))}`;
}
