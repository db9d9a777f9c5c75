// What a conversation cost.

import { DECIMALS, fixed, ofDollars } from "../money.js";

/** The sum of decimal strings; null where one is not known. */
export function total(amounts) {
  if (amounts.some((amount) => amount === null || amount === undefined)) return null;
  const digits = amounts.reduce((sum, amount) => sum + ofDollars(amount), 0n).toString().padStart(DECIMALS + 1, "0");
  return `${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS)}`;
}

/** An amount for people: cents, and where it is less than a dollar two digits that say something. */
export function dollars(amount) {
  const value = Number(amount);
  const cents = value === 0 || value >= 1;
  return fixed(ofDollars(amount), cents ? 2 : Math.min(DECIMALS, 1 - Math.floor(Math.log10(value))));
}
