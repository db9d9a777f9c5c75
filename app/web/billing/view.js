// The state of the billing page, kept in its URL: every view can be linked to and reloaded.

import { apiUrl } from "../api.js";
import { useEffect, useState } from "../html.js";

const DAY_MS = 86_400_000;
const MAX_DAYS = 3 * 366;

/** @typedef {typeof DEFAULTS} View */

/** All parameters and their defaults. */
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
 * @returns {[View, (changes: Partial<View>) => void]}
 */
export function useView() {
  const [view, setView] = useState(read);
  useEffect(() => {
    const onPopState = () => setView(read());
    addEventListener("popstate", onPopState);
    return () => removeEventListener("popstate", onPopState);
  }, []);
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
  const changed = Object.entries(DEFAULTS).filter(([name, initial]) => (view[name] ?? initial) !== initial);
  const query = new URLSearchParams(changed.map(([name]) => [name, view[name]]));
  return `./billing${changed.length > 0 ? `?${query}` : ""}`;
}

function read() {
  const query = new URLSearchParams(location.search);
  const view = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) view[name] = query.get(name) ?? view[name];
  if (!PERIODS.some(([name]) => name === view.period)) view.period = DEFAULTS.period;
  if (!["model", "graph", "key"].includes(view.split)) view.split = DEFAULTS.split;
  return view;
}

/** The first and the last day of a view's period, as UTC midnights in milliseconds; null if it is invalid. */
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

/** Every day of a period, as `2026-11-21`. */
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

/** A period as the API's `from` and exclusive `to`. */
export function apiWindow({ first, last }) {
  return { from: new Date(first).toISOString(), to: new Date(last + DAY_MS).toISOString() };
}

/**
 * A path with the parameters that have a value.
 * @param {string} path
 * @param {Record<string, any>} parameters
 */
export function withQuery(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return given.length > 0 ? `${path}?${new URLSearchParams(given)}` : path;
}
