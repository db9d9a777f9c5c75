// Markdown -> DOM. Text of a model is untrusted: its HTML is shown as text, images of other servers become links, and
// the result goes through DOMPurify. It is never converted back to a string of HTML.

import { t } from "../languages.js";
import DOMPurify from "../vendor/dompurify.js";
import { Lexer, Marked } from "../vendor/marked.js";
import { frameCode, highlight, languageOf } from "./answers/code.js";
import { drawFormulas, formulas } from "./answers/math.js";
import { frameTable } from "./answers/tables.js";

/** Longer blocks and texts are shown as plain text. */
export const MAX_BLOCK = 20_000;
export const MAX_TEXT = 100_000;
/** How many characters that may mean something a block has at most: each can take some microseconds. */
const MAX_MARKS = 2_000;
const MARKS = /[*_`~[\]<>|$\\\n]/g;
/** What the parser takes quadratic time for. */
const DEEP = /^[ \t]*(?:>[ \t]?|[*+-][ \t]+){30}/m;
const FENCE = /^ {0,3}(?:```|~~~)/;

const TAGS = [
  ...["a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "img", "li", "ol", "p", "pre"],
  ...["strong", "table", "tbody", "td", "th", "thead", "tr", "ul"],
];
/** @type {import("../vendor/dompurify.js").Config & {RETURN_DOM_FRAGMENT: true}} */
const POLICY = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "start", "align", "class", "src", "alt"],
  // All others have to be addresses.
  ADD_URI_SAFE_ATTR: ["align", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const WEB = /^https?:\/\//i;
const IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,/i;
/** The classes that the renderers below write; the styles of the page have others. */
const CLASS = /^(?:language-[\w+#.-]{1,30}|formula(?: formula-display)?)$/;
/** Characters that reverse what follows them: a command would read differently from what it is. */
const REVERSING = /[\u202a-\u202e\u2066-\u2069]/g;
/** Also those that only move what is beside them, which texts from right to left need. */
const MOVING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

const purify = DOMPurify(window);
purify.addHook("uponSanitizeElement", (node) => {
  // Also what was written as an entity.
  if (node.nodeName === "#text") node.textContent = readable(node.textContent ?? "");
});
purify.addHook("afterSanitizeAttributes", (node) => {
  if (!CLASS.test(node.className)) node.removeAttribute("class");
  if (node.nodeName === "IMG" && !IMAGE.test(node.getAttribute("src") ?? "")) node.remove();
  if (node.nodeName !== "A" || !node.hasAttribute("href")) return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

const marked = new Marked({ gfm: true, breaks: true });
marked.use({
  extensions: formulas(escaped),
  renderer: {
    html: ({ text }) => escaped(text),
    image({ href, text }) {
      if (IMAGE.test(href)) return `<img src="${escaped(href)}" alt="${escaped(text)}">`;
      return WEB.test(href)
        ? `<a href="${escaped(href)}">${escaped(t("image-of", { name: text || href }))}</a>`
        : escaped(text);
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    heading({ tokens, depth }) {
      const level = Math.min(depth + 2, 6);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
  },
});

/**
 * The elements of a piece of Markdown; null if it should be shown as plain text.
 * @param {string} source
 */
export function rendered(source) {
  if (source.length > MAX_BLOCK || marksIn(source) > MAX_MARKS) return null;
  return parsed(() => purify.sanitize(marked.parse(source, { async: false }), POLICY));
}

/**
 * How much work it is to parse a block: none for code.
 * @param {string} source
 */
export function marksIn(source) {
  return FENCE.test(source) ? 0 : (source.match(MARKS)?.length ?? 0);
}

/**
 * Put code and tables into frames with their buttons.
 * @param {DocumentFragment} fragment
 */
export function framed(fragment) {
  for (const pre of fragment.querySelectorAll("pre")) frameCode(pre);
  for (const table of fragment.querySelectorAll("table")) frameTable(table);
  return fragment;
}

/**
 * Add what takes longer to the elements of a block that will not change any more: colours of code, diagrams, and
 * formulas.
 * @param {HTMLElement} block
 */
export function complete(block) {
  for (const pre of block.querySelectorAll("pre")) {
    if (languageOf(pre) === "mermaid") import("./diagrams/diagram.js").then(({ drawDiagram }) => drawDiagram(pre));
    else highlight(pre);
  }
  drawFormulas(block);
}

/**
 * A text in the order in which it is stored.
 * @param {string} text
 */
export function readable(text) {
  return text.replace(REVERSING, "");
}

/**
 * A value as JSON, in which no character hides or moves another one.
 * @param {unknown} value
 */
export function readableJson(value) {
  const hexOf = (/** @type {string} */ char) => char.charCodeAt(0).toString(16).padStart(4, "0");
  return JSON.stringify(value, null, 2).replace(MOVING, (char) => `\\u${hexOf(char)}`);
}

/**
 * Split the text so far into complete blocks and the last one, which may still change.
 * Only this `tail` has to be parsed again when more text arrives.
 * @param {string} tail
 */
export function split(tail) {
  if (DEEP.test(tail)) return { closed: [], tail };
  const tokens = parsed(() => new Lexer(marked.defaults).blockTokens(tail, [])) ?? [];
  const raws = tokens.map((token) => token.raw);
  let last = tokens.length - 1;
  while (last > 0 && tokens[last].type === "space") last -= 1;
  if (last <= 0 || raws.join("") !== tail) return { closed: [], tail };
  return { closed: raws.slice(0, last).filter((raw) => raw.trim()), tail: raws.slice(last).join("") };
}

/**
 * @template T
 * @param {() => T} parse
 */
function parsed(parse) {
  try {
    return parse();
  } catch (error) {
    // Thousands of nested quotes, for example: the parser runs out of stack.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** @param {string} text */
function escaped(text) {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}
