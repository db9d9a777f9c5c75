// Money as whole numbers of ten-billionths of a dollar: only what is displayed is rounded.

import { locale } from "./languages.js";

export const DECIMALS = 10;
const PER_CREDIT = 1000n;
const PER_DOLLAR = 10n ** BigInt(DECIMALS);
const CENT = PER_DOLLAR / 100n;
const CENTS = 2;

/** How amounts are written, by their least and most decimals. @type {Map<string, Intl.NumberFormat>} */
const formats = new Map();

/**
 * Parse a decimal string of dollars.
 * @param {string} text
 */
export function parseDollars(text) {
  const [, sign, whole, fraction = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) ?? ["", "", "0"];
  const units = BigInt(whole + fraction.padEnd(DECIMALS, "0").slice(0, DECIMALS));
  return sign === "-" ? -units : units;
}

/**
 * Convert credits.
 * @param {number | bigint} credits
 */
export function fromCredits(credits) {
  return BigInt(credits) * PER_CREDIT;
}

/**
 * Format in dollars, with as many decimals as the amount needs.
 * @param {bigint} units
 */
export function formatMoney(units) {
  return formatRounded(units, CENTS, usualDecimals(units));
}

/**
 * Format with a fixed number of decimals, for columns.
 * @param {bigint} units
 * @param {number} decimals
 */
export function formatFixed(units, decimals) {
  return formatRounded(units, decimals, decimals);
}

/**
 * Format with all decimals.
 * @param {bigint} units
 */
export function formatExact(units) {
  return formatRounded(units, CENTS, DECIMALS);
}

/**
 * A decimal string without the zeros at its end, as people write it.
 * @param {string} text
 */
export function plainDecimal(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/**
 * A floating-point number, for the height of chart bars only.
 * @param {bigint} units
 */
export function barHeight(units) {
  return Number(units) / Number(PER_DOLLAR);
}

/** @param {bigint} units */
function usualDecimals(units) {
  const size = units < 0n ? -units : units;
  if (size === 0n || size >= PER_DOLLAR) return 2;
  return size >= CENT ? 4 : 6;
}

/** @param {bigint} units @param {number} least decimals @param {number} most */
function formatRounded(units, least, most) {
  const step = 10n ** BigInt(DECIMALS - most);
  const size = units < 0n ? -units : units;
  const rounded = (size + step / 2n) / step;
  const isLess = rounded === 0n && size > 0n;
  const digits = (isLess ? 1n : rounded).toString().padStart(most + 1, "0");
  // A string: a number would lose digits.
  const decimal = /** @type {`${number}`} */ (
    `${digits.slice(0, digits.length - most)}.${digits.slice(digits.length - most)}`
  );
  const text = `${units < 0n ? "-" : ""}${isLess ? "<" : ""}${dollarsWith(least, most).format(decimal)}`;
  // In a text from right to left, the parts of US$ would change places.
  return document.dir === "rtl" ? `\u2066${text}\u2069` : text;
}

/** @param {number} least decimals @param {number} most */
function dollarsWith(least, most) {
  const key = `${least} ${most}`;
  const format =
    formats.get(key) ??
    new Intl.NumberFormat(locale, {
      ...{ style: "currency", currency: "USD", currencyDisplay: "narrowSymbol" },
      ...{ minimumFractionDigits: least, maximumFractionDigits: most },
    });
  formats.set(key, format);
  return format;
}
