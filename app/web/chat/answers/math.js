// Formulas: TeX between $ or \( \), and $$ or \[ \] for lines of their own; drawn by KaTeX once they are complete.

/** @import { TokenizerAndRendererExtension } from "../../vendor/marked.js" */

const SLICE_MS = 8;
/** In em. */
const MAX_SIZE = 20;
const MAX_EXPANSIONS = 200;
// What a formula of this length can draw takes a few milliseconds, unless it defines macros. Characters that are named
// by their number may be any.
const INLINE =
  /^(?:\$\$((?:\\[^\n]|[^\\$\n]){1,1000}?)\$\$|\$(?![\s$])((?:\\[^\n]|[^\\$\n]){1,1000}?)(?<!\s)\$(?![\w$])|\\\(([^\n]{1,1000}?)\\\)|\\\[([^\n]{1,1000}?)\\\])/;
const BLOCK = /^ {0,3}(?:\$\$([^$]{1,1000}?)\$\$|\\\[([^]{1,1000}?)\\\])[ \t]*(?:\n|$)/;
const REFUSED = /\\(?:@?char|[gex]?def|let|futurelet|global|long|(?:re)?newcommand|providecommand)(?![a-zA-Z])/;

/** How marked reads formulas. @type {(escaped: (text: string) => string) => TokenizerAndRendererExtension[]} */
export const formulas = (escaped) => [
  {
    name: "formulaBlock",
    level: "block",
    start: (source) => {
      const found = source.search(/\n {0,3}(?:\$\$|\\\[)/);
      return found < 0 ? undefined : found + 1;
    },
    tokenizer(source) {
      const found = BLOCK.exec(source);
      return found ? { type: "formulaBlock", raw: found[0], text: (found[1] ?? found[2]).trim() } : undefined;
    },
    renderer: ({ text }) => `<p><code class="formula formula-display">${escaped(text)}</code></p>`,
  },
  {
    name: "formula",
    level: "inline",
    start: (source) => {
      const found = source.search(/\$|\\[([]/);
      return found < 0 ? undefined : found;
    },
    tokenizer(source) {
      const found = INLINE.exec(source);
      if (!found) return undefined;
      const [raw, twoDollars, dollar, round, square] = found;
      const text = twoDollars ?? dollar ?? round ?? square;
      const kind = (twoDollars ?? square) === undefined ? "formula" : "formula formula-display";
      return { type: "formula", raw, text, kind };
    },
    renderer: ({ text, kind }) => `<code class="${kind}">${escaped(text)}</code>`,
  },
];

const NEAR = { rootMargin: "0px", scrollMargin: "1000px" };

/** @type {Promise<unknown> | undefined} */
let library;
/** @type {HTMLElement[]} */
const waiting = [];
/** What a person is about to see is drawn: thousands of formulas would make each change of the page slow. */
const near = new IntersectionObserver((entries) => {
  const isIdle = waiting.length === 0;
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    waiting.push(/** @type {HTMLElement} */ (target));
  }
  if (isIdle) drawSome();
}, NEAR);

/**
 * Draw the formulas in a block that is complete, a few at a time so that the page stays responsive.
 * @param {HTMLElement} block
 */
export async function drawFormulas(block) {
  const found = block.querySelectorAll("code.formula");
  if (found.length === 0) return;
  await (library ??= import("../../vendor/katex.js"));
  for (const formula of found) near.observe(formula);
}

function drawSome() {
  const end = performance.now() + SLICE_MS;
  do {
    const code = waiting.shift();
    if (code?.isConnected) draw(code);
  } while (waiting.length > 0 && performance.now() < end);
  if (waiting.length > 0) setTimeout(drawSome);
}

/** @param {HTMLElement} code what KaTeX refuses stays as it is */
function draw(code) {
  const source = code.textContent;
  if (REFUSED.test(source)) return;
  const place = document.createElement("span");
  place.className = code.className;
  try {
    // To elements: no markup is parsed.
    window.katex.render(source, place, {
      displayMode: code.classList.contains("formula-display"),
      maxExpand: MAX_EXPANSIONS,
      maxSize: MAX_SIZE,
      // Which browsers draw themselves, with their fonts.
      output: "mathml",
      strict: "ignore",
      trust: false,
    });
  } catch (error) {
    if (error instanceof window.katex.ParseError || error instanceof RangeError) return;
    throw error;
  }
  code.replaceWith(place);
}
