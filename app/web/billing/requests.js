// Requests of a part of the page, and what is shown while they load or fail.

import { get } from "../api.js";
import { html, useEffect, useState } from "../html.js";

/**
 * `requested` identifies the paths of the responses.
 * @typedef {{responses: any[] | null, about: any, problem: any, loading: boolean, requested: string | null}} RequestState
 */

/**
 * Request these paths, and again whenever one changes: `{responses, about, problem, loading, retry}`.
 * While new requests are pending the old responses stay, and so does their `about`. A path of null gives null.
 * @param {(string | null)[]} paths
 * @param {any} [about]
 */
export function useRequests(paths, about = null) {
  const [state, setState] = useState(
    /** @type {RequestState} */ ({ responses: null, about, problem: null, loading: true, requested: null }),
  );
  const [tries, setTries] = useState(0);
  const requested = JSON.stringify(paths);
  useEffect(() => {
    let isCurrent = true;
    setState((held) => ({ ...held, problem: null, loading: true }));
    Promise.all(paths.map((path) => (path === null ? null : get(path)))).then(
      (responses) => isCurrent && setState({ responses, about, problem: null, loading: false, requested }),
      (problem) => isCurrent && setState((held) => ({ ...held, problem, loading: false, requested })),
    );
    return () => {
      isCurrent = false;
    };
  }, [...paths, tries]);
  // Until the effect has run, the shown responses belong to the previous paths.
  return { ...state, loading: state.loading || state.requested !== requested, retry: () => setTries(tries + 1) };
}

/** Shows the loading state, the problem, or `show(responses, about)`. */
export function Loaded({ of, what, show }) {
  if (of.problem !== null) return html`<${Problem} of=${of} what=${what} />`;
  if (of.responses === null) return html`<p class="waiting" role="status">Loading ${what}…</p>`;
  return html`<div class=${of.loading ? "refreshing" : ""} aria-busy=${of.loading}>${show(of.responses, of.about)}</div>`;
}

function Problem({ of, what }) {
  return html`
    <div class="notice notice-bad" role="alert">
      <p>Cannot show ${what}: ${of.problem.message}</p>
      <button type="button" class="button button-small" onClick=${of.retry}>Try again</button>
    </div>
  `;
}
