// The keys of the chat page, and the list of them.

import { html, useEffect, useRef, useState } from "../html.js";
import { t } from "../languages.js";

const CONTROL = /mac|iphone|ipad/i.test(navigator.platform) ? "⌘" : "Ctrl";

/**
 * All of them: the keys, and the message that names what they do. Those of a composer and of lists are the browser's.
 * @type {[string[], MessageId][]}
 */
const KEYS = [
  [["Enter"], "send"],
  [["Shift", "Enter"], "key-new-line"],
  [["Shift", "Esc"], "message-placeholder"],
  [[CONTROL, "Shift", "O"], "new-conversation"],
  [[CONTROL, "K"], "search-in-conversations"],
  [[CONTROL, "/"], "keys"],
];

/**
 * Follow the keys of the page: `isListed`, and `list(whether)`.
 * @param {() => void} begin begins a new conversation
 */
export function useKeys(begin) {
  const [isListed, list] = useState(false);
  const latest = useRef(begin);
  latest.current = begin;
  useEffect(() => {
    const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
      const act = actionOf(event, { begin: latest.current, list: () => list(true) });
      if (act === null || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
  return { isListed, list };
}

/** @param {KeyboardEvent} event @param {{begin: () => void, list: () => void}} actions */
function actionOf({ key, ctrlKey, metaKey, altKey, shiftKey }, { begin, list }) {
  const focus = (/** @type {string} */ selector) => () =>
    /** @type {HTMLElement | null} */ (document.querySelector(selector))?.focus();
  if (key === "Escape" && shiftKey) return focus("#message");
  if (!(ctrlKey || metaKey) || altKey) return null;
  // On some keyboards a slash needs Shift.
  if (key === "/") return list;
  if (key.toLowerCase() === "o") return shiftKey ? begin : null;
  return key === "k" ? focus("#conversations [type=search]") : null;
}

/** @param {{close: () => void}} props */
export function KeyList({ close }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => dialog.current?.showModal(), []);
  return html`
    <dialog ref=${dialog} class="card" onClose=${close} aria-labelledby="keys-title">
      <h2 id="keys-title">${t("keys")}</h2>
      <dl class="keys">
        ${KEYS.map(
          ([keys, does]) =>
            html`<div><dt dir="ltr">${keys.map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${t(does)}</dd></div>`,
        )}
      </dl>
      <form method="dialog"><button class="button">${t("close")}</button></form>
    </dialog>
  `;
}
