// The state of the billing page, kept in its URL: every view can be linked to and reloaded.

import { apiUrl } from "../api.js";
import { useEffect, useState } from "../html.js";

const DAY_MS = 86_400_000;
const MAX_DAYS = 3 * 366;

/** The splits of charges, and the values of a receipt's fields that can be chosen. */
const SPLIT_NAMES = /** @type {const} */ (["model", "graph", "key"]);
export const BASES = /** @type {const} */ (["final", "partial", "recovered", "unpriced", "adjustment"]);
export const ORIGINS = /** @type {const} */ (["assistant", "subagent", "hidden"]);

/** @typedef {typeof SPLIT_NAMES[number]} Split */
/** @typedef {typeof BASES[number]} Basis */
/** @typedef {typeof ORIGINS[number]} Origin */
/** @typedef {"run" | "period" | "from" | "to" | "model" | "graph" | "key" | "runId"} TextField */
/** @typedef {Record<TextField, string> & {split: Split, basis: Basis | "", origin: Origin | ""}} View */
/** @typedef {(changes: Partial<View>) => void} Show */
/** @typedef {{first: number, last: number}} Days the first and the last day, as UTC midnights in milliseconds */
/** @typedef {{from: string, to: string}} ApiWindow */

/**
 * All parameters and their defaults.
 * @type {View}
 */
const DEFAULTS = {
  run: "",
  period: "30d",
  from: "",
  to: "",
  split: "model",
  model: "",
  graph: "",
  key: "",
  runId: "",
  basis: "",
  origin: "",
};

export const PERIODS = [
  ["7d", "Last 7 days"],
  ["30d", "Last 30 days"],
  ["90d", "Last 90 days"],
  ["365d", "Last 365 days"],
  ["month", "This month"],
  ["custom", "From … to …"],
];

/**
 * The view, and a function that changes parts of it and adds a history entry.
 * @returns {[View, Show]}
 */
export function useView() {
  const [view, setView] = useState(read);
  useEffect(() => {
    const onPopState = () => setView(read());
    addEventListener("popstate", onPopState);
    return () => removeEventListener("popstate", onPopState);
  }, []);
  /** @type {Show} */
  const show = (changes) => {
    const next = { ...view, ...changes };
    const address = apiUrl(linkTo(next));
    if (address === location.href) return;
    history.pushState(null, "", address);
    setView(next);
  };
  return [view, show];
}

/**
 * The link to a view.
 * @param {Partial<View>} view
 */
export function linkTo(view) {
  /** @type {Map<string, string>} */
  const given = new Map(Object.entries(view));
  const query = new URLSearchParams();
  for (const [name, initial] of Object.entries(DEFAULTS)) {
    const value = given.get(name) ?? initial;
    if (value !== initial) query.set(name, value);
  }
  return `./billing${query.size > 0 ? `?${query}` : ""}`;
}

/** @returns {View} */
function read() {
  const query = new URLSearchParams(location.search);
  const text = (/** @type {TextField} */ name) => query.get(name) ?? DEFAULTS[name];
  const period = text("period");
  return {
    run: text("run"),
    period: PERIODS.some(([name]) => name === period) ? period : DEFAULTS.period,
    from: text("from"),
    to: text("to"),
    split: SPLIT_NAMES.find((name) => name === query.get("split")) ?? DEFAULTS.split,
    model: text("model"),
    graph: text("graph"),
    key: text("key"),
    runId: text("runId"),
    basis: BASES.find((name) => name === query.get("basis")) ?? DEFAULTS.basis,
    origin: ORIGINS.find((name) => name === query.get("origin")) ?? DEFAULTS.origin,
  };
}

/**
 * The days of a view's period; null if it is invalid.
 * @param {View} view
 * @returns {Days | null}
 */
export function periodDays(view, now = Date.now()) {
  const today = Math.floor(now / DAY_MS) * DAY_MS;
  if (view.period === "custom") {
    const [first, last] = [Date.parse(view.from), Date.parse(view.to)];
    return first <= last && last - first < MAX_DAYS * DAY_MS ? { first, last } : null;
  }
  if (view.period === "month") {
    const date = new Date(today);
    return { first: Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1), last: today };
  }
  return { first: today - (Number.parseInt(view.period, 10) - 1) * DAY_MS, last: today };
}

/**
 * What a period is compared with, and its name: as many days before it, or the same days of the last month.
 * @param {View} view
 * @param {Days} days
 * @returns {Days & {name: string}}
 */
export function periodBefore(view, { first, last }) {
  if (view.period !== "month") {
    const count = (last - first) / DAY_MS + 1;
    return {
      first: first - count * DAY_MS,
      last: first - DAY_MS,
      name: count === 1 ? "on the day before" : `in the ${count} days before`,
    };
  }
  const month = new Date(first);
  const before = Date.UTC(month.getUTCFullYear(), month.getUTCMonth() - 1, 1);
  // The last month may be shorter.
  return {
    first: before,
    last: Math.min(before + last - first, first - DAY_MS),
    name: "on the same days of last month",
  };
}

/**
 * Which part of the month has passed whose days these are, as [passed, all] in milliseconds; null on its first day.
 * @param {Days} days
 * @returns {[number, number] | null}
 */
export function passedOfMonth({ first }, now = Date.now()) {
  const month = new Date(first);
  const next = Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1, 1);
  return now - first < DAY_MS ? null : [Math.min(now, next) - first, next - first];
}

/**
 * Every day of a period, as `2026-11-21`.
 * @param {Days} days
 */
export function eachDay({ first, last }) {
  return Array.from({ length: (last - first) / DAY_MS + 1 }, (_, index) => dayName(first + index * DAY_MS));
}

/**
 * The UTC day of a time in milliseconds, as `2026-11-21`.
 * @param {number} time
 */
export function dayName(time) {
  return new Date(time).toISOString().slice(0, 10);
}

/**
 * A period as the API's `from` and exclusive `to`.
 * @param {Days} days
 * @returns {ApiWindow}
 */
export function apiWindow({ first, last }) {
  return { from: new Date(first).toISOString(), to: new Date(last + DAY_MS).toISOString() };
}
