// Money, counted in ten-billionths of a dollar as whole numbers: nothing is rounded but what is shown.

export const DECIMALS = 10;
const PER_CREDIT = 1000n;
const PER_DOLLAR = 10n ** BigInt(DECIMALS);
const CENT = PER_DOLLAR / 100n;
const SPARE_ZEROS = /(\.\d\d\d*?)0+$/;

const grouped = new Intl.NumberFormat("en-US");

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

function usualDecimals(units) {
  const size = units < 0n ? -units : units;
  if (size === 0n || size >= PER_DOLLAR) return 2;
  return size >= CENT ? 4 : 6;
}

function dotted(digits, decimals) {
  const text = digits.toString().padStart(decimals + 1, "0");
  const whole = grouped.format(BigInt(text.slice(0, text.length - decimals)));
  return decimals === 0 ? whole : `${whole}.${text.slice(-decimals)}`;
}
