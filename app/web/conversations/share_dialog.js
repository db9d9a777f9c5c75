// The links by which a conversation is shared.

/** @import { Listed } from "./sessions.js" */

import { ApiError, apiPath, get, post, remove } from "../api.js";
import { apiProblem } from "../chat/messages.js";
import { html, useEffect, useRef, useState, withValue } from "../html.js";
import { nameOf } from "./menu.js";

const DAY_MS = 86_400_000;
const LIFETIMES = [
  ["1", "One day"],
  ["7", "7 days"],
  ["30", "30 days"],
  ["365", "A year"],
];
const SHARES = "/v1/sessions/{stateKey}/shares";

/** @param {{session: Listed, close: () => void}} props */
export function ShareDialog({ session, close }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [shares, setShares] = useState(/** @type {Schemas["ShareResponse"][]} */ ([]));
  const [created, setCreated] = useState(/** @type {Schemas["CreatedShare"] | null} */ (null));
  const [days, setDays] = useState("30");
  const [withToolCalls, setWithToolCalls] = useState(false);
  const [problem, setProblem] = useState("");
  const { stateKey } = session;

  const attempt = async (/** @type {() => Promise<unknown>} */ act) => {
    setProblem("");
    try {
      await act();
      setShares((await get(apiPath(SHARES, { stateKey }))).items);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(apiProblem(error));
    }
  };
  useEffect(() => {
    dialog.current?.showModal();
    attempt(async () => {});
  }, []);
  const create = (/** @type {Event} */ event) => {
    event.preventDefault();
    const expiresAt = new Date(Date.now() + Number(days) * DAY_MS).toISOString();
    return attempt(async () => setCreated(await post(apiPath(SHARES, { stateKey }), { expiresAt, withToolCalls })));
  };
  const revoke = (/** @type {string} */ shareId) =>
    attempt(async () => {
      await remove(apiPath(`${SHARES}/{shareId}`, { stateKey, shareId }));
      if (created?.id === shareId) setCreated(null);
    });

  return html`
    <dialog ref=${dialog} class="card share-dialog" onClose=${close} aria-labelledby="share-title">
      <h2 id="share-title">Share “${nameOf(session)}”</h2>
      <p>Anybody who has the link reads what this conversation has now, without signing in, until the link expires or
        you revoke it. What is said later, costs and files are not shown.</p>
      <form class="share-form" onSubmit=${create}>
        <label class="field">
          <span>The link works for</span>
          <select value=${days} onChange=${withValue(setDays)}>
            ${LIFETIMES.map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}
          </select>
        </label>
        <label class="share-check">
          <input
            type="checkbox"
            checked=${withToolCalls}
            onChange=${() => setWithToolCalls(!withToolCalls)}
          />
          <span>Also show tool calls, with their arguments and results</span>
        </label>
        <button class="button button-primary">Create a link</button>
      </form>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${created && html`<${CreatedLink} key=${created.id} url=${created.url} />`}
      ${shares.length > 0 && html`<${Links} shares=${shares} revoke=${revoke} />`}
      <div class="row"><button type="button" class="button" onClick=${close}>Close</button></div>
    </dialog>
  `;
}

/** @param {{url: string}} props */
function CreatedLink({ url }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [state, setState] = useState("");
  useEffect(() => field.current?.select(), []);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(url);
      setState("Copied.");
    } catch {
      field.current?.select();
      setState("Not copied: the browser does not allow it. The link is selected.");
    }
  };
  return html`
    <div class="share-created">
      <label class="field">
        <span>The link, which is shown only now</span>
        <input ref=${field} readonly value=${url} />
      </label>
      <div class="row">
        <button type="button" class="button button-small" onClick=${copy}>Copy</button>
        <span class="hint" role="status">${state}</span>
      </div>
    </div>
  `;
}

/** @param {{shares: Schemas["ShareResponse"][], revoke: (shareId: string) => void}} props */
function Links({ shares, revoke }) {
  return html`
    <section aria-labelledby="links-title">
      <h3 id="links-title">Links that work</h3>
      <ul class="share-links">
        ${shares.map(
          (share) => html`
            <li key=${share.id}>
              <span>
                Made ${new Date(share.createdAt).toLocaleString()}, until ${new Date(share.expiresAt).toLocaleDateString()}${
                  share.withToolCalls && ", with tool calls"
                }
              </span>
              <button type="button" class="button button-small button-bad" onClick=${() => revoke(share.id)}>Revoke</button>
            </li>
          `,
        )}
      </ul>
    </section>
  `;
}
