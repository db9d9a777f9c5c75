// Requests of a part of the page, and what is shown while they load or fail.

/** @import { Html } from "../html.js" */

import { ApiError, get } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { t } from "../languages.js";
import { formatTime } from "./format.js";
import { notifies } from "./notices.js";
import { whenBack } from "./presence.js";

/** @typedef {readonly (PathOf<ApiPath> | null)[]} Paths */

const NONE = { of: "", arrived: [] };

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
 * `requested` identifies the paths that were requested last, `answered` those of the responses and when they came, and
 * `of` those of the first ones while not all are there. `repeats`: it is requested again by itself.
 * @template All
 * @template About
 * @typedef {{responses: All | null, about: About, problem: Error | null, loading: boolean, requested: string | null,
 *   answered: {paths: string, at: number} | null, first: {of: string, arrived: unknown[]}}} RequestState
 */
/**
 * @template All
 * @template About
 * @typedef {RequestState<All, About> & {repeats: boolean, retry: () => void}} Requests
 */

/**
 * Request these paths, and again whenever one changes: `{responses, about, problem, loading, retry}`.
 * While new requests are pending the old responses stay, and so does their `about`. A path of null gives null.
 * `arrived` has those of the first responses that are there, until all are.
 * With `everyMs` they are repeated while the page is visible, or notifies, and no dialog is open.
 * @template {Paths} const Requested
 * @template About
 * @param {Requested} paths
 * @param {About} about
 */
export function useRequests(paths, about, everyMs = 0) {
  const [state, setState] = useState(
    /** @type {RequestState<Responses<Requested>, About>} */
    ({ responses: null, about, problem: null, loading: true, requested: null, answered: null, first: NONE }),
  );
  const [tries, setTries] = useState(0);
  const requested = JSON.stringify(paths);
  useEffect(() => {
    let isCurrent = true;
    let timer = 0;
    setState((held) => ({ ...held, problem: null, loading: true, first: { of: requested, arrived: [] } }));
    const arrive = (/** @type {number} */ index, /** @type {unknown} */ response) => {
      if (!isCurrent) return;
      setState((held) => {
        if (held.responses !== null) return held;
        const arrived = Object.assign([...held.first.arrived], { [index]: response });
        return { ...held, first: { of: requested, arrived } };
      });
    };
    // A dialog would go with what it is about: it may say that this was deleted.
    const isUnseen = () => document.hidden && !notifies();
    const isLeftAlone = () => everyMs > 0 && (isUnseen() || document.querySelector("dialog[open]") !== null);
    const request = async () => {
      const found = isLeftAlone() ? {} : await outcomeOf(paths, about, arrive);
      const answered = "responses" in found && { answered: { paths: requested, at: Date.now() } };
      if (!isCurrent) return;
      setState((held) => ({ ...held, ...(isLeftAlone() ? {} : { ...found, ...answered }), loading: false, requested }));
      clearTimeout(timer);
      const mayRepeat = everyMs > 0 && !("problem" in found && isFinal(found.problem));
      if (mayRepeat) timer = setTimeout(request, everyMs);
    };
    request();
    const leave = whenBack(() => everyMs > 0 && request());
    return () => {
      isCurrent = false;
      clearTimeout(timer);
      leave();
    };
  }, [...paths, tries, everyMs]);
  // Until the effect has run, the shown responses belong to the previous paths.
  const arrived = /** @type {Partial<Responses<Requested>>} */ (
    /** @type {unknown} */ (state.first.of === requested ? state.first.arrived : [])
  );
  return {
    ...state,
    arrived,
    loading: state.loading || state.requested !== requested,
    repeats: everyMs > 0 && !isFinal(state.problem),
    retry: () => setTries(tries + 1),
  };
}

/** Whether the server will say the same again: the request itself is wrong. @param {unknown} problem */
const isFinal = (problem) => problem instanceof ApiError && [400, 422].includes(problem.status);

/**
 * The responses, or why there are none.
 * @template {Paths} Requested
 * @template About
 * @param {Requested} paths
 * @param {About} about
 * @param {(index: number, response: unknown) => void} arrive
 */
async function outcomeOf(paths, about, arrive) {
  try {
    return { responses: await getAll(paths, arrive), about, problem: null };
  } catch (error) {
    return { problem: /** @type {Error} */ (error) };
  }
}

/**
 * @template {Paths} Requested
 * @param {Requested} paths
 * @param {(index: number, response: unknown) => void} arrive
 */
async function getAll(paths, arrive) {
  const request = async (/** @type {Requested[number]} */ path, /** @type {number} */ index) => {
    const response = path === null ? null : await get(path);
    arrive(index, response);
    return response;
  };
  const responses = await Promise.all(paths.map(request));
  return /** @type {Responses<Requested>} */ (/** @type {unknown} */ (responses));
}

/**
 * The loading state, the problem, or `show(responses, about)`. What was shown stays when it cannot be refreshed.
 * @template All
 * @template About
 * @param {Requests<All, About>} requests
 * @param {{what: string, show: (responses: All, about: About) => Html}} parts
 */
export function loaded({ responses, about, problem, loading, requested, answered, repeats, retry }, { what, show }) {
  const at = answered?.paths === requested ? answered?.at : undefined;
  const refused = problem !== null && html`<${Problem} ...${{ problem, what, at, repeats, retry }} />`;
  if (refused && at === undefined) return refused;
  if (responses === null) return html`<p class="waiting" role="status">${t("loading-of", { what })}</p>`;
  return html`${refused}<div class=${loading ? "refreshing" : ""} aria-busy=${loading}>${show(responses, about)}</div>`;
}

/**
 * `at`: when what is shown was true.
 * @param {{problem: Error, what: string, at: number | undefined, repeats: boolean, retry: () => void}} props
 */
function Problem({ problem: { message: problem }, what, at, repeats, retry }) {
  const time = at && `${formatTime(new Date(at).toISOString())} UTC`;
  return html`
    <div class="notice notice-bad" role="alert">
      <p>${time ? t("cannot-refresh", { what, problem, time }) : t("cannot-show", { what, problem })}${time && repeats && ` ${t("tried-again")}`}</p>
      <button type="button" class="button button-small" onClick=${retry}>${t("try-again")}</button>
    </div>
  `;
}
