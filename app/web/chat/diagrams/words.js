// The words of a diagram. Those who lay it out and write its markup see other characters in their place, as long as
// they would be drawn: so no word is read as markup, nor as a part of the diagram's language.

/** Where the hidden characters are: private ones, which no text means anything by. */
const FIRST = 0xe000;
const HIDDEN = /[\ue000-\ue07f]/g;
/** Follows a character that is as wide as two. */
const FILLER = "\ue080";
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]/g;
/** No XML has them, they are hidden ones, or they reverse what follows. */
const REFUSED = /[\p{Cc}\p{Cs}\p{Co}\p{Cn}\u202a-\u202e\u2066-\u2069]/gu;
const MARKUP = /<\/?(?:b|i|u|em|strong|small|code)>/gi;
const BREAK = /<br\s*\/?>|\\n/gi;
const ENTITY = /[#&]#?(\d{1,6}|quot|amp|lt|gt|apos|nbsp);/g;
/** @type {Record<string, string>} */
const ENTITIES = { quot: '"', amp: "&", lt: "<", gt: ">", apos: "'", nbsp: " " };
/** @type {Record<string, string>} */
const XML = { '"': "&quot;", "&": "&amp;", "<": "&lt;", ">": "&gt;" };

/** All words of one diagram, to see later that none was left out. */
export class Words {
  /** @type {Set<string>} */
  all = new Set();

  /**
   * A text in hidden characters; never an empty one.
   * @param {string} text as mermaid has it: with entities and breaks, perhaps in quotes
   */
  hide(text) {
    const plain = unquoted(text)
      .replace(BREAK, " ")
      .replace(MARKUP, "")
      .replace(ENTITY, (_, name) => ENTITIES[name] ?? String.fromCodePoint(Number(name)))
      .replace(/\s+/g, " ")
      .replace(REFUSED, "")
      .trim();
    const hidden = (plain || " ")
      .replace(/[\x20-\x7e]/g, (char) => String.fromCharCode(FIRST + char.charCodeAt(0)))
      .replace(WIDE, `$&${FILLER}`);
    this.all.add(hidden);
    return hidden;
  }
}

/** @param {string} hidden @param {number} width in characters, at least */
export function widened(hidden, width) {
  return hidden.padEnd(width, FILLER);
}

/** @param {string} text */
export function unquoted(text) {
  return text.replace(/^"([^]*)"$/, "$1");
}

/**
 * The words themselves.
 * @param {string} text with hidden ones
 * @param {(char: string) => string} [written] how each is written
 */
export function revealed(text, written = (char) => char) {
  return text
    .replaceAll(FILLER, "")
    .replace(HIDDEN, (char) => written(String.fromCharCode(char.charCodeAt(0) - FIRST)));
}

/** @param {string} markup whose words are hidden */
export function revealedInMarkup(markup) {
  return revealed(markup, (char) => XML[char] ?? char);
}
