// Reads flowcharts.

import { Graph, ID } from "./graph.js";
import { unreadable } from "./problems.js";

const HEADER = /^(?:graph|flowchart)(?:\s+(TB|TD|BT|LR|RL))?\s*$/i;
/** Ends of lines and semicolons end a statement, but not those in quotes. */
const STATEMENT = /(?:"[^"]*"|#\w{1,6};|[^";\n])+/g;
const GROUP = new RegExp(`^subgraph\\s+(?:(${ID})\\s*\\[(.+)\\]|(.+))$`, "su");
/**
 * Colours and links are left out: it has those of the page, and none. So are directions of groups: of edges that leave
 * such a group the library draws one.
 */
const LOOKS = /^(?:direction|style|classDef|class|linkStyle|click)\s/;
const NODE = new RegExp(`\\s*(${ID})`, "uy");
const CLASS = /:::\w+(?:-\w+)*/y;
const AND = /\s*&/y;
const ARROW = /\s*(<)?(-{2,}>|-{3,}|-\.+->?|={2,}>|={3,})\s*(?:\|\s*("[^"]*"|[^|"]+?)\s*\|)?/y;
const LABELLED_ARROW = /\s*(<)?(?:--|-\.|==)\s*("[^"]*"|[^"|]+?)\s*(-{2,}>|-{3,}|\.+->?|={2,}>|={3,})/y;

const TEXT = '\\s*("[^"]*"|[^"[\\](){}|]+?)\\s*';
/** What is around a text, and what it is for the library: [open, close, open, close]. */
const SHAPES = [
  ["(((", ")))"],
  ["([", "])"],
  ["((", "))"],
  ["[[", "]]"],
  ["[(", ")]"],
  ["[/", "\\]"],
  ["[\\", "/]"],
  ["[/", "/]", "[/", "\\]"],
  ["[\\", "\\]", "[\\", "/]"],
  ["{{", "}}"],
  ["[", "]"],
  ["(", ")"],
  ["{", "}"],
  [">", "]"],
].map(([open, close, ...drawn]) => ({
  pattern: new RegExp(`${escaped(open)}${TEXT}${escaped(close)}`, "y"),
  around: drawn.length > 0 ? drawn : [open, close],
}));

/** @param {string} text */
function escaped(text) {
  return text.replace(/[[\](){}\\/]/g, "\\$&");
}

/** @param {string} source */
export function flowchart(source) {
  const [header, ...statements] = (source.match(STATEMENT) ?? []).map((each) => each.trim()).filter(Boolean);
  const direction = HEADER.exec(header);
  if (direction === null) throw unreadable();
  const graph = new Graph();
  for (const statement of statements) {
    const group = GROUP.exec(statement);
    if (group)
      graph.open(group[1] ?? group[3], (name) => `subgraph ${name} [${graph.words.hide(group[2] ?? group[3])}]`);
    else if (statement === "end" && graph.depth > 0) graph.close("end");
    else if (!LOOKS.test(statement)) new Chain(graph, statement).read();
  }
  if (graph.depth > 0) throw unreadable();
  const text = graph.written(
    `graph ${direction[1] ?? "TD"}`,
    ["[", "]"],
    ({ from, arrow, to }, label) => `${from} ${arrow}${label && `|${label}|`} ${to}`,
  );
  return { text, words: graph.words, edges: graph.edges.size };
}

/** A statement with nodes and the edges between them, read from its start to its end. */
class Chain {
  /** @param {Graph} graph @param {string} text */
  constructor(graph, text) {
    this.graph = graph;
    this.text = text;
    this.at = 0;
  }

  read() {
    let nodes = this.nodes();
    while (this.at < this.text.length) {
      const { arrow, label } = this.arrow();
      const next = this.nodes();
      for (const from of nodes) for (const to of next) this.graph.connect(from, arrow, to, label);
      nodes = next;
    }
  }

  /** @param {RegExp} pattern of what may come next */
  take(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  /** One node, or several with `&` between them. */
  nodes() {
    const names = [this.node()];
    while (this.take(AND)) names.push(this.node());
    return names;
  }

  node() {
    const id = this.take(NODE)?.[1];
    if (id === undefined) throw unreadable();
    const name = this.graph.mention(id);
    for (const { pattern, around } of SHAPES) {
      const text = this.take(pattern)?.[1];
      if (text === undefined) continue;
      this.graph.definitions.set(name, { text, around });
      break;
    }
    this.take(CLASS);
    return name;
  }

  /** @returns {{arrow: string, label: string | undefined}} */
  arrow() {
    const plain = this.take(ARROW);
    const [, start, end, label] = plain ?? [];
    if (plain) return { arrow: written(start, end), label };
    const labelled = this.take(LABELLED_ARROW);
    if (labelled === null) throw unreadable();
    return { arrow: written(labelled[1], labelled[3]), label: labelled[2] };
  }
}

/** @param {string | undefined} start @param {string} line */
function written(start, line) {
  const [open, closed] = line.includes(".") ? ["-.-", "-.->"] : line.includes("=") ? ["===", "==>"] : ["---", "-->"];
  return `${start ?? ""}${line.endsWith(">") ? closed : open}`;
}
