// Links between the pages about runs.

/** The page of a run. @param {string} runId */
export function linkToRun(runId) {
  return `./billing?${new URLSearchParams({ run: runId })}`;
}

/** Two runs side by side. @param {string} a @param {string} b */
export function linkToComparison(a, b) {
  return `./console?${new URLSearchParams({ view: "runs", a, b })}`;
}

/** What the list of runs shows with a filter. @param {Record<string, string>} filters */
export function linkToRuns(filters) {
  return `./console?${new URLSearchParams({ view: "runs", ...filters })}`;
}
