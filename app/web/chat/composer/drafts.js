// What is written in the message field, for each conversation; kept in the tab until it is sent, or the person signs out.

import { useLayoutEffect, useState } from "../../html.js";

const PREFIX = "runtally.draft.";

/** @typedef {ReturnType<typeof useDraft>} Draft */

/**
 * The text of the conversation with this key, kept under this name; null keeps none.
 * @param {string} conversation
 * @param {string | null} name
 */
export function useDraft(conversation, name) {
  const [text, setText] = useState("");
  useLayoutEffect(() => setText(name === null ? "" : (sessionStorage.getItem(PREFIX + name) ?? "")), [conversation]);
  const write = (/** @type {string} */ next) => {
    setText(next);
    if (name === null) return;
    if (next) sessionStorage.setItem(PREFIX + name, next);
    else sessionStorage.removeItem(PREFIX + name);
  };
  return { text, write };
}
