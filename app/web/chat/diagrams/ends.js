// Ends of edges. The library lets an edge that does not come straight to its node turn to the middle of a side, also if
// it comes from above that side: then its end, with the arrow, is under the node.

/** @typedef {{x: number, y: number}} Point */
/** @typedef {{left: number, right: number, top: number, bottom: number}} Box */

const RECTANGLE = /<rect x="([\d.-]+)" y="([\d.-]+)" width="([\d.]+)" height="([\d.]+)"/g;
const EDGE = /(<polyline points=")([\d.,\s-]+)(" fill="none" stroke="var\(--_line\)")/g;

/** @param {string} markup */
export function withVisibleEnds(markup) {
  const boxes = Array.from(markup.matchAll(RECTANGLE), (found) => {
    const [left, top, width, height] = found.slice(1).map(Number);
    return { left, right: left + width, top, bottom: top + height };
  });
  return markup.replace(EDGE, (_, before, points, after) => {
    const given = points.split(" ").map((/** @type {string} */ pair) => {
      const [x, y] = pair.split(",").map(Number);
      return { x, y };
    });
    const mended = mend(mend(given, boxes).reverse(), boxes).reverse();
    return `${before}${mended.map(({ x, y }) => `${x},${y}`).join(" ")}${after}`;
  });
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
