// Reads diagrams of entities and their relationships.

import { unreadable } from "./problems.js";
import { Words } from "./words.js";

const ENTITY = '([\\p{L}\\p{N}_-]+|"[^"]+")';
const OPEN = new RegExp(`^${ENTITY}\\s*\\{$`, "u");
const ALONE = new RegExp(`^${ENTITY}$`, "u");
const RELATION = new RegExp(
  `^${ENTITY}\\s*(\\|\\||\\|o|\\}o|\\}\\|)(--|\\.\\.)(\\|\\||o\\||o\\{|\\|\\{)\\s*${ENTITY}(?:\\s*:\\s*(.+))?$`,
  "u",
);
const KEY = "(?:PK|FK|UK)";
const ATTRIBUTE = new RegExp(`^(\\S+)\\s+(\\S+)((?:[\\s,]+${KEY})*)(?:\\s+"([^"]*)")?$`, "u");
const LOOKS = /^(?:direction|style|classDef|class)\s/;

/** @param {string[]} lines */
export function entities(lines) {
  const words = new Words();
  let isInside = false;
  let edges = 0;
  /** @param {string} line @returns {string | string[]} */
  const read = (line) => {
    if (isInside) {
      isInside = line !== "}";
      return isInside ? attribute(line, words) : line;
    }
    const [, from, near, drawn, far, to, label] = RELATION.exec(line) ?? [];
    if (drawn) edges += 1;
    // The library knows one form of each number at the left end.
    const left = near?.replace("}", "{");
    if (drawn) return `${words.hide(from)} ${left}${drawn}${far} ${words.hide(to)} : ${words.hide(label ?? "")}`;
    const [, opened] = OPEN.exec(line) ?? [];
    isInside = opened !== undefined;
    if (opened) return `${words.hide(opened)} {`;
    const [, alone] = ALONE.exec(line) ?? [];
    if (alone) return [`${words.hide(alone)} {`, "}"].join("\n");
    if (LOOKS.test(line)) return [];
    throw unreadable();
  };
  const body = lines.flatMap(read);
  if (isInside) throw unreadable();
  return { text: ["erDiagram", ...body].join("\n"), words, edges };
}

/** @param {string} line @param {Words} words */
function attribute(line, words) {
  const [, type, name, keys, comment] = ATTRIBUTE.exec(line) ?? [];
  if (!type) throw unreadable();
  const shown = comment ? `${name}: ${comment}` : name;
  return `${words.hide(type)} ${words.hide(shown)} ${keys.replaceAll(",", " ")}`;
}
