// What is far from usual: moments that would flatten a chart, and days that cost unusually much. No I/O, no DOM.

const CUT_ABOVE = 4;
const MIN_CUT = 4;
export const BASELINE_DAYS = 28;
export const MIN_BASELINE = 7;
/** Makes a median deviation comparable with a standard deviation. */
const NORMAL = 1.4826;
const DEVIATIONS = 5;

/** @typedef {{day: string, charged: number, usual: number}} Anomaly a day, its credits and those of a usual day */

/**
 * The top of an axis, and the indexes of the moments that are cut off at it: those above four times the
 * upper quartile, if anything was used at four moments at least.
 * @param {number[]} heights
 * @returns {{top: number, cut: number[]}}
 */
export function axisOf(heights) {
  const used = heights.filter((height) => height > 0).sort((one, other) => one - other);
  const quartile = used[Math.floor((used.length - 1) * 0.75)] ?? 0;
  const usual = used.filter((height) => height <= quartile * CUT_ABOVE);
  if (used.length < MIN_CUT || usual.length === used.length) return { top: used.at(-1) ?? 0, cut: [] };
  const top = /** @type {number} */ (usual.at(-1));
  return { top, cut: heights.flatMap((height, index) => (height > top ? [index] : [])) };
}

/**
 * The days that cost more than twice the median of the days with charges among the 28 before, and more than five
 * deviations (MAD) above it. A day with fewer than seven such days before it is not known to be unusual; null if that
 * is every day.
 * @param {string[]} days those to look at, and before them those that are compared with
 * @param {Map<string, number>} credits by day
 * @returns {Anomaly[] | null}
 */
export function anomaliesOf(days, credits) {
  if (days.slice(0, -1).filter((day) => credits.get(day)).length < MIN_BASELINE) return null;
  return days.flatMap((day, index) => {
    const charged = credits.get(day) ?? 0;
    const before = days.slice(Math.max(0, index - BASELINE_DAYS), index).flatMap((each) => credits.get(each) || []);
    if (before.length < MIN_BASELINE) return [];
    const usual = median(before);
    const deviation = NORMAL * median(before.map((each) => Math.abs(each - usual)));
    return charged > usual + Math.max(DEVIATIONS * deviation, usual) ? [{ day, charged, usual }] : [];
  });
}

/** @param {number[]} values at least one */
function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
