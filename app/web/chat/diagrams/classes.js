// Reads diagrams of classes.

import { unreadable } from "./problems.js";
import { Words } from "./words.js";

const ID = "([\\p{L}\\p{N}_.]+)(?:~(\\w+)~)?";
const CLASS = new RegExp(`^class\\s+${ID}\\s*(\\{|\\{\\s*\\})?$`, "u");
const ANNOTATION = new RegExp(`^<<\\s*(\\w+)\\s*>>(?:\\s*${ID})?$`, "u");
const ANNOTATED = new RegExp(`^class\\s+${ID}\\s*\\{\\s*<<\\s*(\\w+)\\s*>>\\s*\\}$`, "u");
const MEMBER = new RegExp(`^${ID}\\s*:\\s*(.+)$`, "u");
const COUNT = '(?:"([^"]*)")?';
const LINE = "<\\|--|<\\|\\.\\.|\\*--|o--|--\\|>|\\.\\.\\|>|--\\*|--o|<--|<\\.\\.|-->|\\.\\.>|--";
const RELATION = new RegExp(`^${ID}\\s*${COUNT}\\s*(${LINE})\\s*${COUNT}\\s*${ID}(?:\\s*:\\s*(.+))?$`, "u");
const METHOD = /^([^()]+\([^()]*\))([*$]?)\s*:?\s*(.*)$/;
const LOOKS = /^(?:direction|style|cssClass|classDef|click|link|callback)\s/;
/** Arrows that the library knows in the other direction only. @type {Record<string, string>} */
const TURNED = { "--|>": "<|--", "..|>": "<|..", "<--": "-->", "<..": "..>" };

/** @param {string[]} lines */
export function classes(lines) {
  const words = new Words();
  let isInside = false;
  let edges = 0;
  /** @param {string} line @returns {string | string[]} */
  const read = (line) => {
    if (isInside) {
      isInside = line !== "}";
      return isInside ? inside(line, words) : line;
    }
    const related = relation(line, words);
    if (related) edges += 1;
    if (related) return related;
    const [, id, generic, braces] = CLASS.exec(line) ?? [];
    isInside = braces === "{";
    return id ? `class ${words.hide(id)}${generic ? ` ~${generic}~` : ""}${isInside ? " {" : ""}` : other(line, words);
  };
  const body = lines.flatMap(read);
  if (isInside) throw unreadable();
  return { text: ["classDiagram", ...body].join("\n"), words, edges };
}

/** @param {string} line @param {Words} words */
function relation(line, words) {
  const [, from, , near, arrow, far, to, , label] = RELATION.exec(line) ?? [];
  if (!arrow) return null;
  const turned = TURNED[arrow];
  const [[source, sources], [target, targets]] = turned
    ? [
        [to, far],
        [from, near],
      ]
    : [
        [from, near],
        [to, far],
      ];
  const count = (/** @type {string | undefined} */ text) => (text ? ` "${words.hide(text)}"` : "");
  const ends = `${words.hide(source)}${count(sources)} ${turned ?? arrow}${count(targets)} ${words.hide(target)}`;
  return label ? `${ends} : ${words.hide(label)}` : ends;
}

/** @param {string} line @param {Words} words what is not in the braces of a class */
function other(line, words) {
  const [, annotated, , kind] = ANNOTATED.exec(line) ?? [];
  if (annotated) return `class ${words.hide(annotated)} { <<${kind}>> }`;
  const [, annotation, id] = ANNOTATION.exec(line) ?? [];
  if (id) return `class ${words.hide(id)} { <<${annotation}>> }`;
  const [, owner, , text] = MEMBER.exec(line) ?? [];
  if (owner) return `${words.hide(owner)} : ${member(text, words)}`;
  if (LOOKS.test(line)) return [];
  throw unreadable();
}

/** @param {string} line @param {Words} words */
function inside(line, words) {
  const annotation = ANNOTATION.exec(line);
  return annotation ? `<<${annotation[1]}>>` : member(line, words);
}

/** @param {string} text @param {Words} words */
function member(text, words) {
  const [, visibility, rest] = /^([+#~-]?)\s*(.+?);?$/.exec(text) ?? [];
  if (!rest) throw unreadable();
  const plain = rest.replace(/~([^~]+)~/g, "<$1>");
  const [, method, mark, type] = METHOD.exec(plain) ?? [];
  if (method) return `${visibility}${words.hide(method)}${mark}() ${type && words.hide(type)}`;
  const [, attribute, name, isStatic] = /^(\S+)\s+(.+?)(\$?)$/.exec(plain) ?? [];
  return attribute
    ? `${visibility}${words.hide(attribute)} ${words.hide(name)}${isStatic}`
    : `${visibility}${words.hide(plain)}`;
}
