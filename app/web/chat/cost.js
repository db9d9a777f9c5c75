// Dollars, exactly: decimal strings with ten decimals, added as whole numbers.

const DECIMALS = 10;

/** The sum of decimal strings; null where one is not known. */
export function total(amounts) {
  if (amounts.some((amount) => amount === null || amount === undefined)) return null;
  const units = amounts.reduce((sum, amount) => sum + unitsOf(amount), 0n);
  const digits = units.toString().padStart(DECIMALS + 1, "0");
  return `${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS)}`;
}

/** An amount for people: cents, and where it is less than a dollar two digits that say something. */
export function dollars(amount) {
  const value = Number(amount);
  if (value === 0 || value >= 1) return `$${value.toFixed(2)}`;
  return `$${value.toFixed(Math.min(DECIMALS, 1 - Math.floor(Math.log10(value))))}`;
}

function unitsOf(amount) {
  const [whole, part = ""] = amount.split(".");
  return BigInt(whole + part.padEnd(DECIMALS, "0").slice(0, DECIMALS));
}
