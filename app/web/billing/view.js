// The state of the billing page, kept in its URL: every view can be linked to and reloaded.

import { apiUrl } from "../api.js";
import { useEffect, useState } from "../html.js";

const DAY_MS = 86_400_000;
const MAX_DAYS = 3 * 366;

const MAX_HOURLY_DAYS = 14;

/** The splits of charges; a further one is by the values of a tag, `tag:NAME`. */
const SPLIT = /^(?:model|graph|provider|key|endUser|account|tag:[A-Za-z][A-Za-z0-9_.-]{0,63})$/;
const UNITS = /** @type {const} */ (["day", "hour"]);
const MEASURES = /** @type {const} */ (["charged", "tokens", "cache"]);
const AXES = /** @type {const} */ (["usual", "whole"]);
export const BASES = /** @type {const} */ (["final", "partial", "recovered", "unpriced", "adjustment"]);
export const ORIGINS = /** @type {const} */ (["assistant", "subagent", "hidden"]);
export const MISSES = /** @type {const} */ (["changed", "model", "parameters", "expired", "too_far", "not_found"]);

/** @typedef {typeof UNITS[number]} Unit */
/** @typedef {typeof MEASURES[number]} Measure */
/** @typedef {typeof BASES[number]} Basis */
/** @typedef {typeof ORIGINS[number]} Origin */
/** @typedef {"model" | "graph" | "key" | "endUser" | "tag" | "account"} FilterName */
/** @typedef {FilterName | "run" | "period" | "from" | "to" | "runId" | "split"} TextField */
/** @typedef {Record<TextField, string> & {unit: Unit, measure: Measure, axis: typeof AXES[number], basis: Basis | "", origin: Origin | "", miss: typeof MISSES[number] | ""}} View */
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
  unit: "day",
  measure: "charged",
  axis: "usual",
  model: "",
  graph: "",
  key: "",
  endUser: "",
  tag: "",
  account: "",
  runId: "",
  basis: "",
  origin: "",
  miss: "",
};

export const PERIODS = [
  ["1d", "Today"],
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
    const next = withOneLabel({ ...view, ...changes }, changes);
    const address = apiUrl(linkTo(next));
    if (address === location.href) return;
    history.pushState(null, "", address);
    setView(next);
  };
  return [view, show];
}

/**
 * Without what the API refuses beside the changes: one view is about the end user or one tag.
 * @param {View} view
 * @param {Partial<View>} changes
 * @returns {View}
 */
export function withOneLabel(view, changes) {
  const labels = { endUser: view.endUser && "endUser", tag: view.tag && `tag:${view.tag.split(":")[0]}` };
  const split = /^(?:model|graph|key|account)$/.test(view.split) ? "" : view.split;
  const kept = (changes.endUser && labels.endUser) || (changes.tag && labels.tag) || split;
  if (kept === "") return view;
  return {
    ...view,
    endUser: labels.endUser === kept ? view.endUser : "",
    tag: labels.tag === kept ? view.tag : "",
    split: split === kept || split === "" ? view.split : DEFAULTS.split,
  };
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
  const [period, split] = [text("period"), text("split")];
  return {
    run: text("run"),
    period: PERIODS.some(([name]) => name === period) ? period : DEFAULTS.period,
    from: text("from"),
    to: text("to"),
    split: SPLIT.test(split) ? split : DEFAULTS.split,
    unit: UNITS.find((name) => name === query.get("unit")) ?? DEFAULTS.unit,
    measure: MEASURES.find((name) => name === query.get("measure")) ?? DEFAULTS.measure,
    axis: AXES.find((name) => name === query.get("axis")) ?? DEFAULTS.axis,
    model: text("model"),
    graph: text("graph"),
    key: text("key"),
    endUser: text("endUser"),
    tag: text("tag"),
    account: text("account"),
    runId: text("runId"),
    basis: BASES.find((name) => name === query.get("basis")) ?? DEFAULTS.basis,
    origin: ORIGINS.find((name) => name === query.get("origin")) ?? DEFAULTS.origin,
    miss: MISSES.find((name) => name === query.get("miss")) ?? DEFAULTS.miss,
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
 * The unit in which a view is drawn: hours only of a few days.
 * @param {View} view
 * @param {Days} days
 * @returns {Unit}
 */
export function unitOf({ unit }, { first, last }) {
  return last - first < MAX_HOURLY_DAYS * DAY_MS ? unit : "day";
}

/**
 * Every day of a period as `2026-11-21`, or every hour as `2026-11-21T07:00Z`, as the API names them.
 * @param {Days} days
 * @param {Unit} unit
 */
export function eachOf({ first, last }, unit) {
  const step = unit === "day" ? DAY_MS : DAY_MS / 24;
  return Array.from({ length: (last + DAY_MS - first) / step }, (_, index) => nameOf(first + index * step, unit));
}

/** @param {number} time @param {Unit} unit */
function nameOf(time, unit) {
  return unit === "day" ? dayName(time) : `${new Date(time).toISOString().slice(0, 16)}Z`;
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
