// Formats numbers and times for display.

import { locale } from "../languages.js";

const counts = new Intl.NumberFormat(locale);
const kilobytes = new Intl.NumberFormat(locale, { style: "unit", unit: "kilobyte" });
const megabytes = new Intl.NumberFormat(locale, { style: "unit", unit: "megabyte", maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });

/** @param {number} number */
export const count = (number) => counts.format(number);
/** @param {number} number */
export const compactCount = (number) => (number < 10_000 ? counts.format(number) : compact.format(number));

/**
 * A fraction in percent.
 * @param {number} part
 * @param {number} whole
 */
export function percent(part, whole) {
  if (BigInt(whole) === 0n) return "0%";
  const thousandths = Number((BigInt(part) * 1000n) / BigInt(whole));
  if (thousandths === 0 && BigInt(part) > 0n) return "<0.1%";
  return `${(thousandths / 10).toFixed(thousandths < 100 && thousandths % 10 !== 0 ? 1 : 0)}%`;
}

/**
 * `1 run`, `2 runs`.
 * @param {number} number
 * @param {string} noun
 */
export function countOf(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/**
 * A time of the API, in UTC to the second.
 * @param {string} text
 */
export function formatTime(text) {
  return `${text.slice(0, 10)} ${text.slice(11, 19)}`;
}

/**
 * The time between two times of the API.
 * @param {string} from
 * @param {string} to
 */
export function duration(from, to) {
  const seconds = Math.max(0, Date.parse(to) - Date.parse(from)) / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/**
 * A size in kB, or in MB.
 * @param {number} bytes
 */
export function bytesOf(bytes) {
  return bytes < 1_000_000 ? kilobytes.format(Math.ceil(bytes / 1000)) : megabytes.format(bytes / 1_000_000);
}
