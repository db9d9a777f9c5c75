// How a text differs from another one, line by line.

import { html } from "../../html.js";
import { readable } from "../markdown.js";

const CONTEXT_LINES = 3;

/** What a line is: `-` removed, `+` added, a blank unchanged. @typedef {{mark: "-" | "+" | " ", text: string}} Line */

/** @param {{lines: Line[]}} props */
export function Diff({ lines }) {
  return html`<pre class="diff plain-mono">${lines.map(
    ({ mark, text }, index) =>
      html`<${mark === "-" ? "del" : mark === "+" ? "ins" : "span"} key=${index}>${readable(`${mark} ${text}`)}<//>`,
  )}</pre>`;
}

/**
 * The lines of a difference in the unified format, without the names of the files.
 * @param {string} diff
 * @returns {Line[]}
 */
export function linesOf(diff) {
  const lines = diff.split("\n");
  return lines.slice(lines.findIndex((line) => line.startsWith("@@"))).map((line) => {
    const [mark, text] = [line[0], line.slice(1)];
    return mark === "-" || mark === "+" ? { mark, text } : { mark: " ", text: mark === " " ? text : line };
  });
}

/**
 * The lines between those that both texts begin and end with, and some of these.
 * @param {string} before
 * @param {string} after
 * @returns {Line[]}
 */
export function changed(before, after) {
  const [old, now] = [before.split("\n"), after.split("\n")];
  const shorter = Math.min(old.length, now.length);
  let start = 0;
  while (start < shorter && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < shorter - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  return [
    ...marked(" ", old.slice(Math.max(0, start - CONTEXT_LINES), start)),
    ...marked("-", old.slice(start, old.length - end)),
    ...marked("+", now.slice(start, now.length - end)),
    ...marked(" ", old.slice(old.length - end, old.length - Math.max(0, end - CONTEXT_LINES))),
  ];
}

/**
 * @param {Line["mark"]} mark
 * @param {string[]} texts
 * @returns {Line[]}
 */
export function marked(mark, texts) {
  return texts.map((text) => ({ mark, text }));
}
