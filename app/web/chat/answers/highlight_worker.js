// The worker of highlighter.js.

import hljs from "../../vendor/highlight.js";
import { STARTED } from "./time_limit.js";

const TAG = /(<span class="[^"]*">|<\/span>)/;
/** @type {Record<string, string>} */
const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

self.onmessage = ({ data: { code, language } }) => {
  self.postMessage(STARTED);
  const known = hljs.getLanguage(language) !== undefined;
  self.postMessage(known ? piecesOf(hljs.highlight(code, { language, ignoreIllegals: true }).value) : null);
};

/**
 * The parts of what highlight.js writes: nested elements with a class, and escaped text.
 * @param {string} markup
 */
function piecesOf(markup) {
  /** @type {import("./highlighter.js").Pieces} */
  const pieces = [];
  const open = [""];
  for (const part of markup.split(TAG)) {
    if (part === "</span>") open.pop();
    else if (TAG.test(part)) open.push(part.slice('<span class="'.length, -2));
    else if (part) pieces.push([part.replace(/&[^;]+;/g, (entity) => ENTITIES[entity] ?? entity), open.at(-1) ?? ""]);
  }
  return pieces;
}
