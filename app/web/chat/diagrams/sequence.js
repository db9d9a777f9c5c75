// Reads diagrams of sequences.

import { tooLarge, unreadable } from "./problems.js";
import { Words, widened } from "./words.js";

const MAX_PARTICIPANTS = 50;
const PARTICIPANT = /^(?:participant|actor)\s+(.+?)(?:\s+as\s+(.+))?$/;
const MESSAGE = /^(\S.*?)\s*(-->>|->>|--\)|-\)|--x|-x|-->|->)\s*([+-]?)\s*([^\s:>)-][^:]*?)\s*:\s*(.*)$/;
const NOTE = /^note\s+(left of|right of|over)\s+([^:]+?)\s*:\s*(.+)$/i;
const BLOCK = /^(loop|alt|opt|par|critical|break)(?:\s+(.+))?$/;
const DIVIDER = /^(?:else|and|option)(?:\s+(.+))?$/;
/** The messages say what these show. */
const LEFT_OUT = /^(?:activate|deactivate)\s/;

/** @typedef {{index: number, label: string, width: number}} Participant its width is in characters */

/** @param {string[]} lines */
export function sequence(lines) {
  const reading = new Sequence();
  const body = lines.flatMap((line) => reading.line(line));
  if (reading.depth > 0 || reading.participants.size === 0) throw unreadable();
  const declared = [...reading.participants.values()].map(
    ({ index, label, width }) => `participant p${index} as ${widened(reading.words.hide(label), width)}`,
  );
  return { text: ["sequenceDiagram", ...declared, ...body].join("\n"), words: reading.words };
}

class Sequence {
  words = new Words();
  /** In the order in which they appear. @type {Map<string, Participant>} */
  participants = new Map();
  isNumbered = false;
  messages = 0;
  depth = 0;

  /** @param {string} line @returns {string | string[]} what it is for the library */
  line(line) {
    const [, id, label] = PARTICIPANT.exec(line) ?? [];
    if (id) this.participant(id).label = label ?? id;
    if (line === "autonumber") this.isNumbered = true;
    if (id || line === "autonumber" || LEFT_OUT.test(line)) return [];
    if (BLOCK.test(line) || DIVIDER.test(line) || line === "end") return this.block(line);
    const [, place, over, text] = NOTE.exec(line) ?? [];
    if (!place) return this.message(line);
    const names = over.split(",").map((each) => `p${this.participant(each.trim()).index}`);
    return `Note ${place} ${names.join(",")}: ${this.words.hide(text)}`;
  }

  /** @param {string} id */
  participant(id) {
    const index = this.participants.size;
    const found = this.participants.get(id) ?? { index, label: id, width: 0 };
    this.participants.set(id, found);
    if (index > MAX_PARTICIPANTS) throw tooLarge();
    return found;
  }

  /** @param {string} line */
  block(line) {
    const [, kind, title] = BLOCK.exec(line) ?? [];
    if (kind) this.depth += 1;
    else if (this.depth === 0) throw unreadable();
    if (kind) return title ? `${kind} ${this.words.hide(title)}` : kind;
    const [divider, condition] = DIVIDER.exec(line) ?? [];
    if (divider) return condition ? `else ${this.words.hide(condition)}` : "else";
    this.depth -= 1;
    return line;
  }

  /** @param {string} line */
  message(line) {
    const [, from, arrow, activation, to, text] = MESSAGE.exec(line) ?? [];
    if (!arrow) throw unreadable();
    this.messages += 1;
    const [source, target] = [this.participant(from), this.participant(to)];
    const label = this.words.hide(this.isNumbered ? `${this.messages}. ${text}` : text);
    this.makeRoom(source, target, label.length);
    return `p${source.index}${arrow}${activation}p${target.index}: ${label}`;
  }

  /**
   * The library would write a long message over other participants.
   * @param {Participant} source
   * @param {Participant} target
   * @param {number} length of the message
   */
  makeRoom(source, target, length) {
    const [first, last] = [source.index, target.index].sort((one, other) => one - other);
    // A message to oneself is beside the line.
    const needed = first === last ? length + 8 : length / (last - first);
    for (const participant of this.participants.values()) {
      const isBetween = participant.index >= first && participant.index <= last;
      if (isBetween) participant.width = Math.max(participant.width, Math.ceil(needed * 0.8) - 8);
    }
  }
}
