// Requests of a part of the page, and what is shown while they load or fail.

/** @import { Html } from "../html.js" */

import { get } from "../api.js";
import { html, useEffect, useState } from "../html.js";

/** @typedef {readonly (PathOf<ApiPath> | null)[]} Paths */

/**
 * @template Requested
 * @typedef {Requested extends PathOf<infer Path> ? ResponseOf<Path, "get"> : null} ResponseTo
 */

/**
 * The responses to these paths.
 * @template {Paths} Requested
 * @typedef {{[Index in keyof Requested]: ResponseTo<Requested[Index]>}} Responses
 */

/**
 * `requested` identifies the paths of the responses.
 * @template All
 * @template About
 * @typedef {{responses: All | null, about: About, problem: Error | null, loading: boolean, requested: string | null}} RequestState
 */

/**
 * Request these paths, and again whenever one changes: `{responses, about, problem, loading, retry}`.
 * While new requests are pending the old responses stay, and so does their `about`. A path of null gives null.
 * @template {Paths} const Requested
 * @template About
 * @param {Requested} paths
 * @param {About} about
 */
export function useRequests(paths, about) {
  const [state, setState] = useState(
    /** @type {RequestState<Responses<Requested>, About>} */
    ({ responses: null, about, problem: null, loading: true, requested: null }),
  );
  const [tries, setTries] = useState(0);
  const requested = JSON.stringify(paths);
  useEffect(() => {
    let isCurrent = true;
    setState((held) => ({ ...held, problem: null, loading: true }));
    getAll(paths).then(
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

/**
 * @template {Paths} Requested
 * @param {Requested} paths
 */
async function getAll(paths) {
  const responses = await Promise.all(paths.map((path) => (path === null ? null : get(path))));
  return /** @type {Responses<Requested>} */ (/** @type {unknown} */ (responses));
}

/**
 * The loading state, the problem, or `show(responses, about)`.
 * @template All
 * @template About
 * @param {RequestState<All, About> & {retry: () => void}} requests
 * @param {{what: string, show: (responses: All, about: About) => Html}} parts
 */
export function loaded({ responses, about, problem, loading, retry }, { what, show }) {
  if (problem !== null) return html`<${Problem} message=${problem.message} retry=${retry} what=${what} />`;
  if (responses === null) return html`<p class="waiting" role="status">Loading ${what}…</p>`;
  return html`<div class=${loading ? "refreshing" : ""} aria-busy=${loading}>${show(responses, about)}</div>`;
}

/** @param {{message: string, retry: () => void, what: string}} props */
function Problem({ message, retry, what }) {
  return html`
    <div class="notice notice-bad" role="alert">
      <p>Cannot show ${what}: ${message}</p>
      <button type="button" class="button button-small" onClick=${retry}>Try again</button>
    </div>
  `;
}
