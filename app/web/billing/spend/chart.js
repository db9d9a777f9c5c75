// A chart of stacked bars per day or hour, drawn by uPlot.

/** @import { Amounts } from "./amounts.js" */
/** @import { BudgetLine } from "./budget_line.js" */
/** @import { LabelFor } from "./splits.js" */
/** @import uPlot from "../../vendor/uplot.js" */

import { html, useEffect, useRef, useState } from "../../html.js";
import { sumOf } from "./amounts.js";
import { axisOf } from "./outliers.js";

const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;
const TICKS_S = [
  ...[1, 3, 6, 12].map((hours) => hours * HOUR_S),
  ...[1, 2, 5, 7, 14, 30, 61, 91].map((days) => days * DAY_S),
];
const HEIGHT = 260;
const DARK = matchMedia("(prefers-color-scheme: dark)");

/**
 * `marked` are the indexes of moments that are marked; `whole` shows each moment in full, however far above the others.
 * @typedef {{amounts: Amounts, budget: BudgetLine | null, marked: number[], whole: boolean}} Drawn
 */

/** @typedef {{index: number, left: string, right: string}} Pointed a moment, and the position of its label */
/** @typedef {(pointed: Pointed | null) => void} Point */

/**
 * The page shows the amounts as a table, too.
 * @param {Drawn & {labelFor: LabelFor}} props
 */
export function Chart({ amounts, budget, marked, whole, labelFor }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [pointed, point] = useState(/** @type {Pointed | null} */ (null));
  const [dark, setDark] = useState(DARK.matches);
  const [problem, setProblem] = useState("");

  useEffect(() => {
    const changed = () => setDark(DARK.matches);
    DARK.addEventListener("change", changed);
    return () => DARK.removeEventListener("change", changed);
  }, []);
  useEffect(() => {
    const room = place.current;
    if (room === null) return;
    /** @type {uPlot | undefined} */
    let plot;
    let isCurrent = true;
    const watch = new ResizeObserver(() => plot?.setSize({ width: room.clientWidth, height: HEIGHT }));
    import("../../vendor/uplot.js").then(
      ({ default: Plot }) => {
        if (!isCurrent) return;
        plot = new Plot(options(Plot, room, { amounts, budget, marked, whole }, point), stacked(amounts), room);
        watch.observe(room);
      },
      () => setProblem("The chart cannot be loaded. Its numbers are in the table below; reload the page to draw it."),
    );
    return () => {
      isCurrent = false;
      watch.disconnect();
      plot?.destroy();
    };
  }, [amounts, budget?.amount, marked.join(), whole, dark]);

  return html`
    <div class="chart">
      ${problem && html`<p class="notice notice-warn" role="alert">${problem}</p>`}
      <div hidden=${problem !== ""} ref=${place} class="chart-place" role="img" aria-label=${summary(amounts, labelFor)}></div>
      ${
        pointed !== null &&
        pointed.index < amounts.moments.length &&
        html`<${Tip} amounts=${amounts} pointed=${pointed} labelFor=${labelFor} />`
      }
    </div>
  `;
}

/** @param {{amounts: Amounts, pointed: Pointed, labelFor: LabelFor}} props */
function Tip({ amounts: { moments, parts, rows, writing }, pointed: { index, left, right }, labelFor }) {
  const row = rows[index];
  return html`
    <div class="tip" aria-hidden="true" style=${{ left, right }}>
      <p class="tip-day">${momentName(moments[index])} ${writing.adds && html`<strong>${writing.format(sumOf(row))}</strong>`}</p>
      ${parts.map(
        (part, column) =>
          row[column] > 0n &&
          html`<p>
            <span class=${`swatch swatch-${part === null ? "other" : column}`}></span>
            <span class="tip-label">${labelFor(part)}</span>
            <span>${writing.format(row[column])}</span>
          </p>`,
      )}
    </div>
  `;
}

/**
 * `2026-11-21 07:00` of an hour, `2026-11-21` of a day.
 * @param {string} moment
 */
export function momentName(moment) {
  return moment.slice(0, 16).replace("T", " ");
}

/** @param {Amounts} amounts @param {LabelFor} labelFor */
function summary({ moments, parts, totals, writing }, labelFor) {
  const sums = parts.map((part) => `${labelFor(part)} ${writing.format(totals.get(part) ?? 0n)}`);
  const unit = unitSeconds(moments) === DAY_S ? "day" : "hour";
  const [first, last] = [moments[0], moments[moments.length - 1]].map(momentName);
  return `${writing.title} per ${unit} from ${first} to ${last}. ${sums.join(", ")}. Each ${unit} stands in the table below.`;
}

/** @param {string[]} moments */
function unitSeconds(moments) {
  return moments[0].includes("T") ? HOUR_S : DAY_S;
}

/**
 * uPlot does not stack: each series is the sum of itself and those below, and the highest is drawn first.
 * @param {Amounts} amounts
 * @returns {uPlot.AlignedData}
 */
function stacked({ moments, parts, rows, writing }) {
  const times = moments.map((moment) => Date.parse(moment) / 1000);
  const sums = rows.map(() => 0n);
  const heights = parts.map((_, column) =>
    rows.map((row, index) => {
      sums[index] += row[column];
      return writing.height(sums[index]);
    }),
  );
  return [times, ...heights.reverse()];
}

/**
 * The top of the axis, and the moments that are cut off there.
 * @param {Amounts} amounts
 * @param {boolean} whole
 */
export function scaleOf({ rows, writing }, whole) {
  const heights = rows.map((row) => writing.height(sumOf(row)));
  return whole ? { top: Math.max(0, ...heights), cut: [] } : axisOf(heights);
}

/**
 * @param {typeof uPlot} Plot
 * @param {HTMLElement} place
 * @param {Drawn} drawn
 * @param {Point} point
 * @returns {uPlot.Options}
 */
function options(Plot, place, { amounts, budget, marked, whole }, point) {
  const { moments, parts, writing } = amounts;
  const style = getComputedStyle(place);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const font = `12px ${style.fontFamily}`;
  const axis = { font, stroke: colour("--muted"), ticks: { show: false } };
  const unit = unitSeconds(moments);
  const [first, last] = [moments[0], moments[moments.length - 1]].map((moment) => Date.parse(moment) / 1000);
  const { top, cut } = scaleOf(amounts, whole);
  const limit = budget === null ? 0 : writing.height(budget.amount);
  // A budget far above everything would flatten it as well.
  const highest = limit <= top * 2 ? Math.max(top, limit) : top;
  return {
    width: place.clientWidth,
    height: HEIGHT,
    padding: [16, 12, 0, 0],
    tzDate: (seconds) => Plot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: () => [first - unit / 2, last + unit / 2] },
      y: { range: () => [0, highest * 1.08 || 1] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 34,
        space: 56,
        incrs: TICKS_S.filter((seconds) => seconds >= unit),
        values: (_, marks, __, ___, step) => marks.map((mark) => (step < DAY_S ? hourOrDay(mark) : dayAndMonth(mark))),
      },
      {
        ...axis,
        grid: { stroke: colour("--line"), width: 1 },
        size: 60,
        values: (_, marks) => marks.map(writing.mark),
      },
    ],
    series: [
      {},
      ...parts
        .map((part, index) => ({
          fill: colour(part === null ? "--part-other" : `--part-${index}`),
          width: 0,
          points: { show: false },
          paths: Plot.paths.bars?.({ size: [0.72, 44], radius: 0.08 }),
        }))
        .reverse(),
    ],
    hooks: {
      setCursor: [(plot) => point(pointedAt(plot))],
      draw: [
        (plot) => {
          if (budget !== null && limit <= highest) drawLimit(plot, limit, colour("--bad"));
          for (const index of cut) drawSign(plot, index, { sign: "≈", px: 20, colour: colour("--surface"), below: 16 });
          for (const index of marked) drawSign(plot, index, { sign: "●", px: 11, colour: colour("--bad"), below: -2 });
        },
      ],
    },
  };
}

/**
 * @param {uPlot} plot
 * @param {number} limit
 * @param {string} colour
 */
function drawLimit({ ctx, bbox, valToPos }, limit, colour) {
  const y = valToPos(limit, "y", true);
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

/**
 * A sign at the top of a moment's bar: in it if the bar is cut off there, above it if the moment is marked.
 * @param {uPlot} plot
 * @param {number} index
 * @param {{sign: string, px: number, colour: string, below: number}} drawn
 */
function drawSign({ ctx, bbox, data, valToPos }, index, { sign, px, colour, below }) {
  const top = Math.max(bbox.top, valToPos(/** @type {number} */ (data[1][index]), "y", true));
  ctx.save();
  ctx.fillStyle = colour;
  ctx.font = `bold ${px * devicePixelRatio}px sans-serif`;
  ctx.textAlign = "center";
  ctx.fillText(sign, valToPos(data[0][index], "x", true), top + below * devicePixelRatio);
  ctx.restore();
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

/** @param {number} seconds */
function hourOrDay(seconds) {
  return seconds % DAY_S === 0 ? dayAndMonth(seconds) : new Date(seconds * 1000).toISOString().slice(11, 16);
}
