// What flowcharts and diagrams of states have in common: nodes, groups of them, and edges.

import { tooLarge } from "./problems.js";
import { Words, unquoted } from "./words.js";

const MAX_NODES = 150;
const MAX_EDGES = 300;
/** Of groups in groups: each takes the library several times as long. */
const MAX_DEPTH = 8;

/** How the writers of diagrams call their nodes. */
export const ID = "[\\p{L}\\p{N}_]+(?:[-.][\\p{L}\\p{N}_]+)*";

/** @typedef {{from: string, to: string, arrow: string, labels: string[]}} Edge */

/** A graph as it is read. It is written in an order in which the library loses nothing of it. */
export class Graph {
  words = new Words();
  /** The name of each id: an id may be a word that means something to the library. @type {Map<string, string>} */
  names = new Map();
  /** What nodes have around their texts, if it is said; the last word counts. @type {Map<string, {text: string, around: string[]}>} */
  definitions = new Map();
  /** @type {Set<string>} */
  groups = new Set();
  /** The nodes that are in a group. @type {Set<string>} */
  placed = new Set();
  depth = 0;
  /** Groups, and the nodes in them. @type {string[]} */
  lines = [];
  /** @type {Map<string, Edge>} */
  edges = new Map();

  /** @param {string} id */
  name(id) {
    const name = this.names.get(id) ?? `n${this.names.size}`;
    this.names.set(id, name);
    if (this.names.size > MAX_NODES) throw tooLarge();
    return name;
  }

  /**
   * The name of a node that is mentioned in the group that is open.
   * @param {string} id
   */
  mention(id) {
    const name = this.name(id);
    if (this.depth > 0 && !this.placed.has(name)) {
      this.placed.add(name);
      this.lines.push(name);
    }
    return name;
  }

  /**
   * Begin a group.
   * @param {string} id
   * @param {(name: string) => string} written
   */
  open(id, written) {
    const name = this.name(id);
    this.groups.add(name);
    this.lines.push(written(name));
    this.depth += 1;
    if (this.depth > MAX_DEPTH) throw tooLarge();
  }

  /** @param {string} line */
  close(line) {
    this.lines.push(line);
    this.depth -= 1;
  }

  /**
   * @param {string} from
   * @param {string} arrow
   * @param {string} to
   * @param {string} [label]
   */
  connect(from, arrow, to, label) {
    const key = `${from} ${to}`;
    // The library draws one edge from a node to another.
    const labels = [...(this.edges.get(key)?.labels ?? []), ...(label ? [unquoted(label)] : [])];
    this.edges.set(key, { from, to, arrow, labels });
    if (this.edges.size > MAX_EDGES) throw tooLarge();
  }

  /** @param {string} name @param {{text: string, around: string[]}} otherwise */
  defined(name, otherwise) {
    const { text, around } = this.definitions.get(name) ?? otherwise;
    return `${name}${around[0]}${this.words.hide(text)}${around[1]}`;
  }

  /**
   * In the library's language.
   * @param {string} header
   * @param {string[]} around the text of a node that has no other shape
   * @param {(edge: Edge, label: string) => string} connected
   */
  written(header, around, connected) {
    const nodes = [...this.names].filter(([, name]) => !this.groups.has(name));
    const definitions = new Map(nodes.map(([id, name]) => [name, this.defined(name, { text: id, around })]));
    const label = (/** @type {Edge} */ { labels }) => (labels.length > 0 ? this.words.hide(labels.join(" / ")) : "");
    return [
      header,
      ...definitions.values(),
      ...this.lines.map((line) => definitions.get(line) ?? line),
      ...[...this.edges.values()].map((edge) => connected(edge, label(edge))),
    ].join("\n");
  }
}
