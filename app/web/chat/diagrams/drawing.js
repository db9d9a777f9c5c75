// Draws a diagram of mermaid: translates it for the library, and passes on only such markup as it should have written.

/** @import { Words } from "./words.js" */

import { renderMermaid } from "../../vendor/mermaid.js";
import { classes } from "./classes.js";
import { withVisibleEnds } from "./ends.js";
import { entities } from "./entities.js";
import { flowchart } from "./flowchart.js";
import { tooLarge, unreadable } from "./problems.js";
import { sequence } from "./sequence.js";
import { states } from "./states.js";
import { revealed, revealedInMarkup } from "./words.js";

const MAX_LINES = 500;
/** In pixels. */
const MAX_SIDE = 8_000;
const FRONT_MATTER = /^\s*---\n[^]*?\n---\n/;
/** Comments, directives that configure mermaid, and what screen readers are told. */
const COMMENT = /^\s*(?:%%|acc(?:Title|Descr)\s*:).*$/gm;

/** @typedef {{text: string, words: Words, edges?: number}} Translated what the library reads, and how many edges it has to draw */

/** @type {[header: RegExp, read: (source: string) => Translated][]} */
const KINDS = [
  [/^(?:graph|flowchart)\b/i, flowchart],
  [/^stateDiagram(?:-v2)?$/im, linesWith(states)],
  [/^sequenceDiagram$/im, linesWith(sequence)],
  [/^classDiagram(?:-v2)?$/im, linesWith(classes)],
  [/^erDiagram$/im, linesWith(entities)],
];

const SIZE = /^<svg [^>]*width="([\d.]+)" height="([\d.]+)"/;
const STYLE = /<style>[^]*?<\/style>/;
const EDGE = /<polyline [^>]*stroke="var\(--_line\)"/g;
const ELEMENT =
  /<\/?(?:svg|defs|marker|g|rect|circle|ellipse|line|polyline|polygon|path|text|tspan)(?: [a-zA-Z][\w-]*="[^"<>]*")*\s*\/?>/g;
const FOREIGN = /\s(?:on\w*|\w*href|src|style|class)=|url\((?!#)|NaN|undefined|Infinity/i;

/**
 * A diagram as SVG whose colours are still names (`var(--_line)`), and its words; null if it is of a kind
 * that is not drawn.
 * @param {string} source
 * @returns {Promise<import("./diagram.js").Drawing | null>}
 */
export async function drawing(source) {
  const text = source.replace(FRONT_MATTER, "").replace(COMMENT, "").trim();
  const read = KINDS.find(([header]) => header.test(text.split("\n", 1)[0].trim()))?.[1];
  if (read === undefined) return null;
  if (text.split("\n").length > MAX_LINES) throw tooLarge();
  const translated = read(text);
  const markup = withVisibleEnds(plain(await written(translated.text)), translated.text);
  const { width, height } = sizeOf(markup);
  check(markup, translated);
  const words = [...translated.words.all].map((word) => revealed(word)).filter((word) => word.trim());
  return { svg: revealedInMarkup(markup), width, height, words };
}

/** @param {(lines: string[]) => Translated} read @returns {(source: string) => Translated} */
function linesWith(read) {
  return (source) =>
    read(
      source
        .split("\n")
        .slice(1)
        .map((line) => line.trim().replace(/(?<![#&]\w{1,6});$/, ""))
        .filter(Boolean),
    );
}

/** @param {string} text */
async function written(text) {
  try {
    return await renderMermaid(text, { padding: 16 });
  } catch {
    // Its errors have no kinds.
    throw unreadable();
  }
}

/**
 * Without styles: they would load fonts, and colours come from the page.
 * @param {string} markup
 */
function plain(markup) {
  return markup
    .replace(STYLE, "")
    .replace(/ style="[^"]*"/, ' font-family="system-ui, sans-serif"')
    .replaceAll(' class="mono"', ' font-family="ui-monospace, monospace"')
    .replace(/<text [^>]*>\(no attributes\)<\/text>/g, "");
}

/** @param {string} markup */
function sizeOf(markup) {
  const [width, height] = SIZE.exec(markup)?.slice(1).map(Number) ?? [0, 0];
  if (!(width > 0 && height > 0)) throw unreadable();
  if (width > MAX_SIDE || height > MAX_SIDE) throw tooLarge();
  return { width, height };
}

/** @param {string} markup whose words are hidden @param {Translated} translated */
function check(markup, { words, edges }) {
  if (markup.replace(ELEMENT, "").includes("<") || FOREIGN.test(markup)) throw unreadable();
  if (![...words.all].every((word) => markup.includes(word))) throw unreadable();
  if (edges !== undefined && markup.match(EDGE)?.length !== (edges || undefined)) throw unreadable();
}
