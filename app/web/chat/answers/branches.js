// Which branches continue differently at a place of a conversation; pure.

/** @typedef {Schemas["BranchResponse"]} Branch */
/** @typedef {{position: number, count: number, previous: string | null, next: string | null}} Alternatives */

/**
 * The branches that continue differently after a run, and which of them is current; null if there is only one.
 * `previous` and `next` are the ids of its neighbours.
 * @param {Branch[]} branches all of the conversation, oldest first
 * @param {string | null} before the last run that they have in common; null: none
 * @returns {Alternatives | null}
 */
export function alternativesAfter(branches, before) {
  const forks = branches.filter((branch) => branch.forkedFromRun === before);
  const source = before === null ? undefined : branches.find(({ branchId }) => branchId === forks[0]?.forkedFromBranch);
  const continues = source !== undefined && source.lastRun !== before;
  const all = continues ? [source, ...forks] : forks;
  if (all.length < 2) return null;
  const path = pathOf(branches);
  const fork = forks.findIndex(({ branchId }) => path.has(branchId));
  const index = fork < 0 ? 0 : fork + Number(continues);
  return {
    position: index + 1,
    count: all.length,
    previous: all[index - 1]?.branchId ?? null,
    next: all[index + 1]?.branchId ?? null,
  };
}

/**
 * The current branch and those that it was forked from.
 * @param {Branch[]} branches
 */
function pathOf(branches) {
  const byId = new Map(branches.map((branch) => [branch.branchId, branch]));
  const path = new Set();
  let branch = branches.find(({ isCurrent }) => isCurrent);
  while (branch !== undefined) {
    path.add(branch.branchId);
    branch = byId.get(branch.forkedFromBranch ?? "");
  }
  return path;
}
