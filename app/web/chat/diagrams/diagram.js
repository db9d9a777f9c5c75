// Diagrams of mermaid in place of their code. A picture (`img`) runs nothing and loads nothing, whatever is in it.

/** @import { Problem } from "./problems.js" */

import { t } from "../../languages.js";
import { smallButton } from "../answers/copy.js";
import { withTimeLimit } from "../answers/time_limit.js";

const LIMIT_MS = 3000;
const MAX_CHARACTERS = 10_000;
const MAX_WORDS = 500;
/** Of a diagram that is opened large. */
const MAX_SCALE = 2.5;
/** The colours of the page for those that a drawing names. @type {Record<string, string>} */
const COLOURS = {
  "--bg": "--surface",
  "--_text": "--text",
  "--_text-sec": "--text",
  "--_text-muted": "--muted",
  "--_text-faint": "--muted",
  "--_line": "--line-strong",
  "--_arrow": "--muted",
  "--_node-fill": "--raised",
  "--_node-stroke": "--line-strong",
  "--_group-fill": "--ground",
  "--_group-hdr": "--raised",
  "--_inner-stroke": "--line",
  "--_key-badge": "--accent-soft",
};
const DARK = matchMedia("(prefers-color-scheme: dark)");

/** @typedef {{svg: string, width: number, height: number, words: string[]}} Drawing its colours are names */
/** @typedef {{drawing: Drawing | null, problem: Problem | null}} Answer with neither, its kind is not drawn */

/** @type {(source: string) => Promise<Answer | null | undefined>} */
const drawn = withTimeLimit(new URL("./worker.js", import.meta.url), LIMIT_MS);
/** The drawings of the pictures on the page. @type {Map<HTMLImageElement, string>} */
const shown = new Map();

/**
 * Show a diagram that is complete instead of its code, or say why not.
 * @param {HTMLPreElement} pre
 */
export async function drawDiagram(pre) {
  const source = pre.textContent;
  const isLong = source.length > MAX_CHARACTERS;
  const answer = isLong ? null : await drawn(source);
  if (answer?.drawing) show(pre, answer.drawing);
  else if (answer === undefined) say(pre, "diagram-failed");
  else if (answer === null || answer.problem) say(pre, answer?.problem ?? "diagram-too-large");
}

/** @param {HTMLPreElement} pre @param {Problem} problem */
function say(pre, problem) {
  const line = document.createElement("p");
  line.className = "diagram-problem";
  line.textContent = t(problem);
  pre.before(line);
}

/** @param {HTMLPreElement} pre @param {Drawing} drawing */
function show(pre, drawing) {
  const place = document.createElement("div");
  place.className = "diagram scroll-x";
  // Scrolling elements must be reachable by keyboard.
  place.tabIndex = 0;
  place.append(pictureOf(drawing));
  const source = smallButton(t("diagram-source"), t("diagram-source-of"));
  source.setAttribute("aria-pressed", "false");
  source.addEventListener("click", () => {
    pre.hidden = !pre.hidden;
    place.hidden = !pre.hidden;
    source.setAttribute("aria-pressed", String(!pre.hidden));
  });
  const large = smallButton(t("diagram-large"), t("diagram-large-of"));
  large.addEventListener("click", () => open(drawing));
  pre.previousElementSibling?.querySelector(".code-wrap")?.before(source, large);
  pre.before(place);
  pre.hidden = true;
}

/** @param {string[]} words */
function nameOf(words) {
  return t("diagram-of", { words: words.join(", ").slice(0, MAX_WORDS) });
}

/** @param {Drawing} drawing */
function pictureOf({ svg, width, height, words }) {
  const picture = document.createElement("img");
  picture.alt = nameOf(words);
  picture.width = width;
  picture.height = height;
  picture.decoding = "async";
  shown.set(picture, svg);
  colour(picture, svg);
  return picture;
}

/** @param {Drawing} drawing */
function open(drawing) {
  const dialog = document.createElement("dialog");
  dialog.className = "card diagram-large";
  dialog.setAttribute("aria-label", nameOf(drawing.words));
  const close = smallButton(t("close"), t("close"));
  close.addEventListener("click", () => dialog.close());
  const place = document.createElement("div");
  place.className = "diagram";
  place.tabIndex = 0;
  const picture = pictureOf(drawing);
  const fitting = Math.min((innerWidth - 64) / drawing.width, (innerHeight - 120) / drawing.height, MAX_SCALE);
  picture.width = Math.max(1, fitting) * drawing.width;
  picture.height = Math.max(1, fitting) * drawing.height;
  place.append(picture);
  dialog.append(close, place);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {HTMLImageElement} picture @param {string} svg */
function colour(picture, svg) {
  const page = getComputedStyle(document.documentElement);
  const coloured = svg.replace(/var\((--[\w-]+)\)/g, (_, name) => page.getPropertyValue(COLOURS[name]));
  picture.src = `data:image/svg+xml,${encodeURIComponent(coloured)}`;
}

function colourAll() {
  for (const [picture, svg] of shown) {
    if (picture.isConnected) colour(picture, svg);
    else shown.delete(picture);
  }
}

DARK.addEventListener("change", colourAll);
// A site that embeds the chat sets its colours there.
new MutationObserver(colourAll).observe(document.documentElement, { attributeFilter: ["style"] });
