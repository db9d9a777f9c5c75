// Asking the API for what a part of the page shows.

import { get } from "../api.js";
import { html, useEffect, useState } from "../html.js";

/**
 * The answers to these paths, asked again whenever one changes: `{answers, about, problem, loading, again}`.
 * While new ones are on their way the old ones stay, and `about` with them: what they were asked for.
 * A path of null is not asked.
 */
export function useAnswers(paths, about = null) {
  const [state, setState] = useState({ answers: null, about, problem: null, loading: true, asked: null });
  const [tries, setTries] = useState(0);
  const asked = JSON.stringify(paths);
  useEffect(() => {
    let wanted = true;
    setState((held) => ({ ...held, problem: null, loading: true }));
    Promise.all(paths.map((path) => (path === null ? null : get(path)))).then(
      (answers) => wanted && setState({ answers, about, problem: null, loading: false, asked }),
      (problem) => wanted && setState((held) => ({ ...held, problem, loading: false, asked })),
    );
    return () => {
      wanted = false;
    };
  }, [...paths, tries]);
  // Also before anything has been asked: what is shown with new paths has not come by them.
  return { ...state, loading: state.loading || state.asked !== asked, again: () => setTries(tries + 1) };
}

/** Waiting, what went wrong, or what `show` makes of the answers. */
export function Loaded({ of, what, show }) {
  if (of.problem !== null) return html`<${Problem} of=${of} what=${what} />`;
  if (of.answers === null) return html`<p class="waiting" role="status">Loading ${what}…</p>`;
  return html`<div class=${of.loading ? "refreshing" : ""} aria-busy=${of.loading}>${show(of.answers, of.about)}</div>`;
}

function Problem({ of, what }) {
  return html`
    <div class="notice notice-bad" role="alert">
      <p>Cannot show ${what}: ${of.problem.message}</p>
      <button type="button" class="button button-small" onClick=${of.again}>Try again</button>
    </div>
  `;
}
