// Money as whole numbers of ten-billionths of a dollar: only what is displayed is rounded.

export const DECIMALS = 10;
const PER_CREDIT = 1000n;
const PER_DOLLAR = 10n ** BigInt(DECIMALS);
const CENT = PER_DOLLAR / 100n;
const SPARE_ZEROS = /(\.\d\d\d*?)0+$/;

const grouped = new Intl.NumberFormat("en-US");

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
  return formatFixed(units, usualDecimals(units)).replace(SPARE_ZEROS, "$1");
}

/**
 * Format with a fixed number of decimals, for columns.
 * @param {bigint} units
 * @param {number} decimals
 */
export function formatFixed(units, decimals) {
  const step = 10n ** BigInt(DECIMALS - decimals);
  const size = units < 0n ? -units : units;
  const rounded = (size + step / 2n) / step;
  if (rounded === 0n && size > 0n) return `${units < 0n ? "-" : ""}<$${withPoint(1n, decimals)}`;
  return `${units < 0n ? "-" : ""}$${withPoint(rounded, decimals)}`;
}

/**
 * Format with all decimals.
 * @param {bigint} units
 */
export function formatExact(units) {
  return formatFixed(units, DECIMALS).replace(SPARE_ZEROS, "$1");
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

/** @param {bigint} digits @param {number} decimals */
function withPoint(digits, decimals) {
  const text = digits.toString().padStart(decimals + 1, "0");
  const whole = grouped.format(BigInt(text.slice(0, text.length - decimals)));
  return decimals === 0 ? whole : `${whole}.${text.slice(-decimals)}`;
}
