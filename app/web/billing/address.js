// What the page shows, kept in its address: every view can be linked to, reloaded and gone back to.

import { urlOf } from "../api.js";
import { useEffect, useState } from "../html.js";

const DAY_MS = 86_400_000;
const MOST_DAYS = 3 * 366;

/** Every parameter and its value when the address does not name it. */
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

/** The view, and a function that changes parts of it: a step to go back to. */
export function useView() {
  const [view, setView] = useState(read);
  useEffect(() => {
    const goTo = () => setView(read());
    addEventListener("popstate", goTo);
    return () => removeEventListener("popstate", goTo);
  }, []);
  const show = (changes) => {
    const next = { ...view, ...changes };
    const address = urlOf(addressOf(next));
    if (address === location.href) return;
    history.pushState(null, "", address);
    setView(next);
  };
  return [view, show];
}

/** Where a view is. */
export function addressOf(view) {
  const said = Object.entries(DEFAULTS).filter(([name, usual]) => (view[name] ?? usual) !== usual);
  const query = new URLSearchParams(said.map(([name]) => [name, view[name]]));
  return `./billing${said.length > 0 ? `?${query}` : ""}`;
}

function read() {
  const query = new URLSearchParams(location.search);
  const view = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) view[name] = query.get(name) ?? view[name];
  if (!PERIODS.some(([name]) => name === view.period)) view.period = DEFAULTS.period;
  if (!["model", "graph", "key"].includes(view.split)) view.split = DEFAULTS.split;
  return view;
}

/** The first and the last day of a view's period, as UTC midnights in milliseconds; null if it makes no sense. */
export function daysOf(view, now = Date.now()) {
  const today = Math.floor(now / DAY_MS) * DAY_MS;
  if (view.period === "custom") {
    const [first, last] = [Date.parse(view.from), Date.parse(view.to)];
    return first <= last && last - first < MOST_DAYS * DAY_MS ? { first, last } : null;
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

/** The day that holds a moment, as `2026-11-21`. */
export function dayName(moment) {
  return new Date(moment).toISOString().slice(0, 10);
}

/** The window of a period as the API's `from` and `to`, which is exclusive. */
export function windowOf({ first, last }) {
  return { from: new Date(first).toISOString(), to: new Date(last + DAY_MS).toISOString() };
}

/** A path with those parameters that have a value. */
export function withQuery(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return given.length > 0 ? `${path}?${new URLSearchParams(given)}` : path;
}
