// The language of the page: its messages, and the locale of its numbers and dates.

/** @import { Html } from "./html.js" */

import { FluentBundle, FluentResource } from "./vendor/fluent.js";

/** What each is called in itself; its messages are in `languages`. */
export const LANGUAGES = {
  en: "English",
  de: "Deutsch",
  es: "Español",
  fr: "Français",
  ja: "日本語",
  ar: "العربية",
};
const RIGHT_TO_LEFT = ["ar"];
const CHOSEN = "runtally.language";
const ELEMENT = /([\ue000-\ue0ff])/;

/** @typedef {Record<string, string | number>} Values */

const root = document.documentElement;
/** Pages for operators are English. */
export const isChosenByPerson = root.dataset.language === "person";

/** The tags of the languages that are asked for, the best first. */
function asked() {
  if (isChosenByPerson) return [localStorage.getItem(CHOSEN) ?? "", ...navigator.languages];
  // A frame of another site may have no storage.
  if (root.dataset.language === "site") {
    return [new URLSearchParams(location.search).get("lang") ?? "", ...navigator.languages];
  }
  return [];
}

const base = (/** @type {string} */ tag) => tag.split("-")[0].toLowerCase();

export const language =
  asked()
    .map(base)
    .find((each) => Object.hasOwn(LANGUAGES, each)) ?? "en";
/** The language, with the region that the browser has for it. */
export const locale = navigator.languages.find((tag) => base(tag) === language) ?? language;

root.lang = language;
root.dir = RIGHT_TO_LEFT.includes(language) ? "rtl" : "ltr";

// Before anything is drawn. English has what another language lacks.
const bundles = await Promise.all([...new Set([language, "en"])].map(load));

/** @param {string} name */
async function load(name) {
  const response = await fetch(new URL(`./languages/${name}.ftl`, import.meta.url));
  const bundle = new FluentBundle(name === language ? locale : name, { useIsolating: root.dir === "rtl" });
  bundle.addResource(new FluentResource(await response.text()));
  return bundle;
}

/** @param {string} name */
export function choose(name) {
  localStorage.setItem(CHOSEN, name);
  location.reload();
}

/**
 * A message; its id if there is none.
 * @param {string} id
 * @param {Values} [values] of its variables
 */
export function t(id, values) {
  return tIfKnown(id, values) ?? id;
}

/**
 * A message that exists for some cases only; null for the others.
 * @param {string} id
 * @param {Values} [values]
 */
export function tIfKnown(id, values) {
  for (const bundle of bundles) {
    const pattern = bundle.getMessage(id)?.value;
    if (pattern) return bundle.formatPattern(pattern, values);
  }
  return null;
}

/**
 * A message whose variables are elements.
 * @param {string} id
 * @param {Record<string, Html>} elements
 */
export function tWithElements(id, elements) {
  const marks = Object.keys(elements).map((name, index) => [name, String.fromCharCode(0xe000 + index)]);
  const found = Object.values(elements);
  return t(id, Object.fromEntries(marks))
    .split(ELEMENT)
    .map((piece) => (ELEMENT.test(piece) ? found[piece.charCodeAt(0) - 0xe000] : piece));
}
