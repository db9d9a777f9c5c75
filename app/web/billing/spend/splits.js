// The splits of charges, and how their parts are named and chosen.

/** @import { KeyName } from "../receipts.js" */
/** @import { View } from "../view.js" */

/** @typedef {(part: string | null) => string} LabelFor */

/** @type {Map<string, [string, string]>} the label of each split, and what its parts are */
export const SPLITS = new Map([
  ["model", ["Model", "models"]],
  ["graph", ["Graph", "graphs"]],
  ["key", ["API key", "keys"]],
  ["endUser", ["End user", "end users"]],
  ["provider", ["Provider", "providers"]],
  ["account", ["Account", "accounts"]],
]);

/**
 * The name of the tag by whose values is split; undefined for other splits.
 * @param {string} split
 */
export function tagOf(split) {
  return split.startsWith("tag:") ? split.slice(4) : undefined;
}

/**
 * @param {string} split
 * @returns {[string, string]}
 */
export function wordsOf(split) {
  return SPLITS.get(split) ?? [`Tag ${tagOf(split)}`, `values of ${tagOf(split)}`];
}

/**
 * The name of each part of a split.
 * @param {string} split
 * @param {{keyName: KeyName, accountName: (id: string) => string}} names
 * @returns {LabelFor}
 */
export function labelsOf(split, { keyName, accountName }) {
  const isLabel = split === "endUser" || tagOf(split) !== undefined;
  return (part) => {
    if (part === null) return isLabel ? `Others, and without` : `Other ${wordsOf(split)[1]}`;
    if (split === "key") return keyName(part);
    return split === "account" ? accountName(part) : part;
  };
}

/**
 * The change that shows only one part; of a provider, its graphs beside all others.
 * @param {string} split
 * @param {string} part
 * @param {LabelFor} labelFor
 * @returns {Partial<View>}
 */
export function onlyPart(split, part, labelFor) {
  if (split === "account") return { account: labelFor(part), split: "model" };
  if (split === "provider") return { split: "graph" };
  return tagOf(split) === undefined ? { [split]: part } : { tag: `${tagOf(split)}:${part}` };
}
