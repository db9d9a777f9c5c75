// What can be done with a conversation of the list.

/** @import { Listed } from "./sessions.js" */

import { apiPath, apiUrl } from "../api.js";
import { html, useEffect, useRef } from "../html.js";
import { t } from "../languages.js";

const GAP_PX = 4;

/**
 * Null is what the key does not allow.
 * @typedef {object} MenuActions
 * @property {((session: Listed) => void) | null} rename
 * @property {((session: Listed, changes: Schemas["ChangedConversation"]) => void) | null} change
 * @property {((session: Listed) => void) | null} share
 * @property {((session: Listed) => void) | null} remove
 */

/**
 * A menu below the button that has opened it.
 * @param {{session: Listed, anchor: HTMLElement, actions: MenuActions, close: () => void}} props
 */
export function Menu({ session, anchor, actions, close }) {
  const menu = useRef(/** @type {HTMLDivElement | null} */ (null));
  useEffect(() => {
    const shown = menu.current;
    if (shown === null) return;
    shown.showPopover();
    const { bottom, left, right } = anchor.getBoundingClientRect();
    const { width, height } = shown.getBoundingClientRect();
    const start = document.dir === "rtl" ? Math.min(left, innerWidth - width - GAP_PX) : right - width;
    shown.style.left = `${Math.max(GAP_PX, start)}px`;
    shown.style.top = `${Math.max(GAP_PX, Math.min(bottom + GAP_PX, innerHeight - height - GAP_PX))}px`;
    /** @type {HTMLElement | null} */ (shown.querySelector("button, a"))?.focus();
  }, []);
  const { rename, change, share, remove } = actions;
  const then = (/** @type {() => void} */ act) => () => {
    menu.current?.hidePopover();
    act();
  };
  const onToggle = (/** @type {ToggleEvent} */ event) => {
    if (event.newState === "closed") close();
  };
  const exported = (/** @type {"markdown" | "json"} */ format) =>
    apiUrl(apiPath("/v1/sessions/{stateKey}/export", { stateKey: session.stateKey, format }));
  return html`
    <div class="menu" popover ref=${menu} role="group" aria-label=${t("actions-for", { title: nameOf(session) })} onToggle=${onToggle}>
      ${rename && html`<button type="button" onClick=${then(() => rename(session))}>${t("rename")}</button>`}
      ${
        change &&
        html`
        <button type="button" onClick=${then(() => change(session, { pinned: !session.pinned }))}>
          ${t(session.pinned ? "unpin" : "pin")}
        </button>
        <button type="button" onClick=${then(() => change(session, { archived: !session.archived }))}>
          ${t(session.archived ? "unarchive" : "archive")}
        </button>
      `
      }
      ${share && html`<button type="button" onClick=${then(() => share(session))}>${t("share")}</button>`}
      <a href=${exported("markdown")} download="conversation.md" onClick=${then(() => {})}>${t("export-markdown")}</a>
      <a href=${exported("json")} download="conversation.json" onClick=${then(() => {})}>${t("export-json")}</a>
      ${remove && html`<button type="button" class="menu-bad" onClick=${then(() => remove(session))}>${t("delete-dots")}</button>`}
    </div>
  `;
}

/** @param {Listed} session */
export function nameOf(session) {
  return session.title ?? session.stateKey;
}
