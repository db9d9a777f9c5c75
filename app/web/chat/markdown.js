// Markdown -> DOM. Text of a model is untrusted: its HTML is shown as text, images become links, and the result
// goes through DOMPurify. It is never converted back to a string of HTML.

import DOMPurify from "../vendor/dompurify.js";
import { Lexer, Marked } from "../vendor/marked.js";

/** Longer blocks and texts are shown as plain text. */
export const MAX_BLOCK = 20_000;
export const MAX_TEXT = 100_000;

const TAGS = [
  ...["a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "strong"],
  ...["table", "tbody", "td", "th", "thead", "tr", "ul"],
];
/** @type {import("../vendor/dompurify.js").Config & {RETURN_DOM_FRAGMENT: true}} */
const POLICY = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "start", "align"],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const WEB = /^https?:\/\//i;

const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName !== "A" || !node.hasAttribute("href")) return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

const marked = new Marked({ gfm: true, breaks: true });
marked.use({
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ href, text }) =>
      WEB.test(href) ? `<a href="${escaped(href)}">Image: ${escaped(text || href)}</a>` : escaped(text),
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
  if (source.length > MAX_BLOCK) return null;
  const fragment = parsed(() => purify.sanitize(marked.parse(source, { async: false }), POLICY));
  for (const pre of fragment?.querySelectorAll("pre") ?? []) frameCode(pre);
  for (const table of fragment?.querySelectorAll("table") ?? []) frameTable(table);
  return fragment;
}

/**
 * Split the text so far into complete blocks and the last one, which may still change.
 * Only this `tail` has to be parsed again when more text arrives.
 * @param {string} tail
 */
export function split(tail) {
  const tokens = parsed(() => new Lexer({ gfm: true, breaks: true }).blockTokens(tail, [])) ?? [];
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

/** @param {HTMLPreElement} pre */
function frameCode(pre) {
  const frame = document.createElement("div");
  frame.className = "code";
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = "button button-small code-copy";
  copy.textContent = "Copy";
  copy.setAttribute("aria-label", "Copy this code");
  const text = pre.textContent;
  copy.addEventListener("click", () => copied(copy, text));
  // Scrolling elements must be reachable by keyboard.
  pre.tabIndex = 0;
  pre.replaceWith(frame);
  frame.append(pre, copy);
}

/** @param {HTMLButtonElement} button @param {string} text */
async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not copied";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

/** @param {HTMLTableElement} table */
function frameTable(table) {
  const frame = document.createElement("div");
  frame.className = "scroll-x";
  frame.tabIndex = 0;
  table.replaceWith(frame);
  frame.append(table);
}
