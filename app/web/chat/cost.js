// The cost of a conversation.

import { DECIMALS, formatFixed, parseDollars } from "../money.js";

/**
 * The sum of decimal strings; null if one is unknown.
 * @param {(string | null)[]} amounts
 */
export function total(amounts) {
  let sum = 0n;
  for (const amount of amounts) {
    if (amount === null) return null;
    sum += parseDollars(amount);
  }
  const digits = sum.toString().padStart(DECIMALS + 1, "0");
  return `${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS)}`;
}

/**
 * Format in dollars: two decimals, or two significant digits below one dollar.
 * @param {string} amount
 */
export function dollars(amount) {
  const value = Number(amount);
  const cents = value === 0 || value >= 1;
  return formatFixed(parseDollars(amount), cents ? 2 : Math.min(DECIMALS, 1 - Math.floor(Math.log10(value))));
}
