// Reads diagrams of states.

import { Graph, ID } from "./graph.js";
import { unreadable } from "./problems.js";

const CLASS = "(?::::[\\w-]+)?";
const END = `(\\[\\*\\]|${ID})${CLASS}`;
const TRANSITION = new RegExp(`^${END}\\s*-->\\s*${END}(?:\\s*:\\s*(.+))?$`, "u");
const NAMED = new RegExp(`^state\\s+"([^"]+)"\\s+as\\s+(${ID})\\s*(\\{)?$`, "u");
const STATE = new RegExp(`^state\\s+(${ID})\\s*(\\{|<<(?:choice|fork|join)>>)?$`, "u");
const DESCRIPTION = new RegExp(`^(${ID})${CLASS}\\s*:\\s*(.+)$`, "u");
const ALONE = new RegExp(`^(${ID})${CLASS}$`, "u");
const DIRECTION = /^direction\s+(?:TB|TD|BT|LR|RL)$/i;
const LOOKS = /^(?:style|classDef|class|click|hide empty description)\b/;
const AROUND = [" : ", ""];
const OUTSIDE = "[*]";

/** @param {string[]} lines */
export function states(lines) {
  const graph = new Graph();
  for (const line of lines) read(line, graph);
  if (graph.depth > 0) throw unreadable();
  const text = graph.written(
    "stateDiagram-v2",
    AROUND,
    ({ from, to }, label) => `${from} --> ${to}${label && ` : ${label}`}`,
  );
  return { text, words: graph.words, edges: text.split(" --> ").length - 1 };
}

/** @param {string} line @param {Graph} graph */
function read(line, graph) {
  const transition = TRANSITION.exec(line);
  if (transition) return connect(graph, transition);
  const [, text, named, opens] = NAMED.exec(line) ?? [];
  if (named) return declare(graph, named, text, opens === "{");
  const [, id, kind] = STATE.exec(line) ?? [];
  if (id) return declare(graph, id, null, kind === "{");
  if (line === "}" && graph.depth > 0) return graph.close("}");
  if (DIRECTION.test(line)) return void (graph.depth === 0 && graph.lines.push(line));
  if (LOOKS.test(line)) return undefined;
  const [, described, description] = DESCRIPTION.exec(line) ?? [];
  if (described) return declare(graph, described, description, false);
  const alone = ALONE.exec(line);
  if (alone === null) throw unreadable();
  graph.mention(alone[1]);
}

/** @param {Graph} graph @param {RegExpExecArray} transition */
function connect(graph, [, from, to, label]) {
  const [source, target] = [from, to].map((end) => (end === OUTSIDE ? end : graph.mention(end)));
  if (from !== OUTSIDE && to !== OUTSIDE) return graph.connect(source, "-->", target, label);
  // It begins or ends where it is written: in its group.
  graph.lines.push(`${source} --> ${target}${label ? ` : ${graph.words.hide(label)}` : ""}`);
}

/** @param {Graph} graph @param {string} id @param {string | null} text @param {boolean} opens */
function declare(graph, id, text, opens) {
  if (opens) return graph.open(id, (name) => `state "${graph.words.hide(text ?? id)}" as ${name} {`);
  const name = graph.mention(id);
  if (text !== null) graph.definitions.set(name, { text, around: AROUND });
}
