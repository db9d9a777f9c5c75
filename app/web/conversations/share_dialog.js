// The links by which a conversation is shared.

/** @import { Listed } from "./sessions.js" */

import { ApiError, apiPath, get, post, remove } from "../api.js";
import { apiProblem } from "../chat/messages.js";
import { html, useEffect, useRef, useState, withValue } from "../html.js";
import { locale, t } from "../languages.js";
import { copied } from "../parts/clipboard.js";
import { nameOf } from "./menu.js";

const DAY_MS = 86_400_000;
const YEAR = 365;
const LIFETIMES = [1, 7, 30, YEAR];
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
      <h2 id="share-title">${t("share-title", { title: nameOf(session) })}</h2>
      <p>${t("share-words")}</p>
      <form class="share-form" onSubmit=${create}>
        <label class="field">
          <span>${t("share-lifetime")}</span>
          <select value=${days} onChange=${withValue(setDays)}>
            ${LIFETIMES.map(
              (each) => html`
                <option key=${each} value=${each}>
                  ${each === YEAR ? t("share-year") : t("share-days", { days: each })}
                </option>
              `,
            )}
          </select>
        </label>
        <label class="share-check">
          <input
            type="checkbox"
            checked=${withToolCalls}
            onChange=${() => setWithToolCalls(!withToolCalls)}
          />
          <span>${t("share-tool-calls")}</span>
        </label>
        <button class="button button-primary">${t("share-create")}</button>
      </form>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${created && html`<${CreatedLink} key=${created.id} url=${created.url} />`}
      ${shares.length > 0 && html`<${Links} shares=${shares} revoke=${revoke} />`}
      <div class="row"><button type="button" class="button" onClick=${close}>${t("close")}</button></div>
    </dialog>
  `;
}

/** @param {{url: string}} props */
function CreatedLink({ url }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [state, setState] = useState("");
  useEffect(() => field.current?.select(), []);
  const copy = async () => {
    field.current?.select();
    setState(t((await copied(url)) ? "copied-sentence" : "share-not-copied"));
  };
  return html`
    <div class="share-created">
      <label class="field">
        <span>${t("share-link")}</span>
        <input ref=${field} readonly value=${url} />
      </label>
      <div class="row">
        <button type="button" class="button button-small" onClick=${copy}>${t("copy")}</button>
        <span class="hint" role="status">${state}</span>
      </div>
    </div>
  `;
}

/** @param {{shares: Schemas["ShareResponse"][], revoke: (shareId: string) => void}} props */
function Links({ shares, revoke }) {
  return html`
    <section aria-labelledby="links-title">
      <h3 id="links-title">${t("share-links")}</h3>
      <ul class="share-links">
        ${shares.map(
          (share) => html`
            <li key=${share.id}>
              <span>
                ${t(share.withToolCalls ? "share-made-with-tools" : "share-made", {
                  created: new Date(share.createdAt).toLocaleString(locale),
                  expires: new Date(share.expiresAt).toLocaleDateString(locale),
                })}
              </span>
              <button type="button" class="button button-small button-bad" onClick=${() => revoke(share.id)}>${t("share-revoke")}</button>
            </li>
          `,
        )}
      </ul>
    </section>
  `;
}
