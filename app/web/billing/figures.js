// Numbers as people read them. Money is counted in ten-billionths of a dollar, as whole numbers: nothing is rounded but what is shown.

const DECIMALS = 10;
const PER_CREDIT = 1000n;
const PER_DOLLAR = 10n ** BigInt(DECIMALS);
const CENT = PER_DOLLAR / 100n;
const SPARE_ZEROS = /(\.\d\d\d*?)0+$/;

const counts = new Intl.NumberFormat("en-US");
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** An amount from a decimal string of dollars. */
export function ofDollars(text) {
  const [, sign, whole, fraction = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text);
  const units = BigInt(whole + fraction.padEnd(DECIMALS, "0").slice(0, DECIMALS));
  return sign === "-" ? -units : units;
}

/** An amount from credits. */
export function ofCredits(credits) {
  return BigInt(credits) * PER_CREDIT;
}

/** An amount in dollars, with as many decimals as its size needs. */
export function money(units) {
  return fixed(units, usualDecimals(units)).replace(SPARE_ZEROS, "$1");
}

/** An amount with so many decimals, to stand below others. */
export function fixed(units, decimals) {
  const step = 10n ** BigInt(DECIMALS - decimals);
  const size = units < 0n ? -units : units;
  const rounded = (size + step / 2n) / step;
  if (rounded === 0n && size > 0n) return `${units < 0n ? "-" : ""}<$${dotted(1n, decimals)}`;
  return `${units < 0n ? "-" : ""}$${dotted(rounded, decimals)}`;
}

/** An amount to its last decimal. */
export function exactMoney(units) {
  return fixed(units, DECIMALS).replace(SPARE_ZEROS, "$1");
}

/** Only for where a bar ends, never for a number anybody reads. */
export function length(units) {
  return Number(units) / Number(PER_DOLLAR);
}

export const count = (number) => counts.format(number);
export const roughly = (number) => (number < 10_000 ? counts.format(number) : compact.format(number));

/** A part of a whole in percent. */
export function percent(part, whole) {
  if (BigInt(whole) === 0n) return "0%";
  const thousandths = Number((BigInt(part) * 1000n) / BigInt(whole));
  if (thousandths === 0 && BigInt(part) > 0n) return "<0.1%";
  return `${(thousandths / 10).toFixed(thousandths < 100 && thousandths % 10 !== 0 ? 1 : 0)}%`;
}

/** `1 run`, `2 runs`. */
export function several(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** A moment of the API, in UTC to the second. */
export function moment(text) {
  return `${text.slice(0, 10)} ${text.slice(11, 19)}`;
}

/** How long it took from one moment of the API to another. */
export function lasted(from, to) {
  const seconds = Math.max(0, Date.parse(to) - Date.parse(from)) / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

function usualDecimals(units) {
  const size = units < 0n ? -units : units;
  if (size === 0n || size >= PER_DOLLAR) return 2;
  return size >= CENT ? 4 : 6;
}

function dotted(digits, decimals) {
  const text = digits.toString().padStart(decimals + 1, "0");
  const whole = counts.format(BigInt(text.slice(0, text.length - decimals)));
  return decimals === 0 ? whole : `${whole}.${text.slice(-decimals)}`;
}
