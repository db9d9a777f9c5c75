// Ends of edges. The library lets an edge that does not come straight to its node turn to the middle of a side, also if
// it comes from above that side: then its end, with the arrow, is under the node. And it lets an edge from a group begin
// at the last node in it, as if it came from there.

/** @typedef {{x: number, y: number}} Point */
/** @typedef {{left: number, right: number, top: number, bottom: number}} Box */

const RECTANGLE = /<rect x="([\d.-]+)" y="([\d.-]+)" width="([\d.]+)" height="([\d.]+)"/g;
const GROUP = /<rect [^>]*fill="var\(--_group-fill\)"[^>]*>/g;
/** Of what the library has read, in the order in which it draws them. */
const GROUP_READ = /^(?:subgraph (n\d+) |state "[^"]*" as (n\d+) \{)/gm;
const EDGE_READ = /^(n\d+|\[\*\]) <?(?:-->|---|-\.->|-\.-|==>|===)(\|.*\|)? \S+( : .*)?$/gm;
const LABEL = /<rect [^>]*rx="4" ry="4" fill="var\(--bg\)"[^>]*>/g;
const EDGE = /(<polyline points=")([\d.,\s-]+)(" fill="none" stroke="var\(--_line\)")/g;

/** @param {string} markup */
function boxesIn(markup) {
  return Array.from(markup.matchAll(RECTANGLE), (found) => {
    const [left, top, width, height] = found.slice(1).map(Number);
    return { left, right: left + width, top, bottom: top + height };
  });
}

/** @param {string} markup @param {string} read what the library has drawn */
export function withVisibleEnds(markup, read) {
  const boxes = boxesIn(markup);
  const left = groupsLeft(markup, read);
  return markup.replace(EDGE, (_, before, points, after) => {
    const given = points.split(" ").map((/** @type {string} */ pair) => {
      const [x, y] = pair.split(",").map(Number);
      return { x, y };
    });
    const group = left.shift();
    const leaving = group ? cut(given, group) : given;
    const mended = mend(mend(leaving, boxes).reverse(), boxes).reverse();
    return `${before}${mended.map(({ x, y }) => `${x},${y}`).join(" ")}${after}`;
  });
}

/**
 * The group that each edge leaves; null if it leaves none, or has its text inside, where the edge has to be.
 * @param {string} markup
 * @param {string} read
 */
function groupsLeft(markup, read) {
  const drawn = boxesIn((markup.match(GROUP) ?? []).join(""));
  const groups = new Map(
    Array.from(read.matchAll(GROUP_READ), ([, one, other], index) => [one ?? other, drawn[index]]),
  );
  const labels = boxesIn((markup.match(LABEL) ?? []).join(""));
  return Array.from(read.matchAll(EDGE_READ), ([, source, inPipes, afterColon]) => {
    const group = groups.get(source);
    const label = inPipes || afterColon ? labels.shift() : undefined;
    return group && !(label && isIn({ x: label.left, y: label.top }, group)) ? group : null;
  });
}

/**
 * The points of an edge that leaves a group, from where it does so.
 * @param {Point[]} points
 * @param {Box} group
 */
function cut(points, group) {
  const outside = points.findIndex((point) => !isIn(point, group));
  if (outside < 1) return points;
  const [inner, outer] = [points[outside - 1], points[outside]];
  const start = isNear(inner.x, outer.x)
    ? { x: inner.x, y: outer.y < inner.y ? group.top : group.bottom }
    : { x: outer.x < inner.x ? group.left : group.right, y: inner.y };
  return [start, ...points.slice(outside)];
}

/**
 * The points of an edge, the last of which is at the side that the one before it comes from.
 * @param {Point[]} points
 * @param {Box[]} boxes
 */
function mend(points, boxes) {
  const [from, turn, end] = points.slice(-3);
  if (end === undefined) return points;
  const node = boxes.find((box) => isMiddleOfSide(end, box) && isIn(turn, box));
  if (node === undefined) return points;
  const { left, right, top, bottom } = node;
  const isVertical = isNear(turn.y, end.y);
  const last = isVertical
    ? { x: turn.x, y: from.y < top ? top : bottom }
    : { x: from.x < left ? left : right, y: turn.y };
  return [...points.slice(0, -2), last];
}

/** @param {Point} point @param {Box} box */
function isMiddleOfSide({ x, y }, { left, right, top, bottom }) {
  const isBeside = (isNear(x, left) || isNear(x, right)) && isNear(y, (top + bottom) / 2);
  return isBeside || ((isNear(y, top) || isNear(y, bottom)) && isNear(x, (left + right) / 2));
}

/** @param {Point} point @param {Box} box */
function isIn({ x, y }, { left, right, top, bottom }) {
  return x > left - 1 && x < right + 1 && y > top - 1 && y < bottom + 1;
}

/** @param {number} one @param {number} other */
function isNear(one, other) {
  return Math.abs(one - other) < 1;
}
