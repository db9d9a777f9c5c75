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
  if (root.dataset.language === undefined) return [];
  // A frame of another site may have no storage.
  const chosen = isChosenByPerson ? localStorage.getItem(CHOSEN) : new URLSearchParams(location.search).get("lang");
  return [chosen ?? "", ...navigator.languages];
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

const bundle = new FluentBundle(locale, { useIsolating: root.dir === "rtl" });
// Before anything is drawn.
const file = await fetch(new URL(`./languages/${language}.ftl`, import.meta.url));
bundle.addResource(new FluentResource(await file.text()));

/** @param {string} name */
export function choose(name) {
  localStorage.setItem(CHOSEN, name);
  location.reload();
}

/**
 * A message; its id if there is none.
 * @param {MessageId} id
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
  const pattern = bundle.getMessage(id)?.value;
  return pattern ? bundle.formatPattern(pattern, values) : null;
}

/**
 * A message whose variables are elements.
 * @param {MessageId} id
 * @param {Record<string, Html>} elements
 */
export function tWithElements(id, elements) {
  const marks = Object.keys(elements).map((name, index) => [name, String.fromCharCode(0xe000 + index)]);
  const found = Object.values(elements);
  return t(id, Object.fromEntries(marks))
    .split(ELEMENT)
    .map((piece) => (ELEMENT.test(piece) ? found[piece.charCodeAt(0) - 0xe000] : piece));
}
