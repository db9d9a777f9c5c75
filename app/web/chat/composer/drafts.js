// What is written in the message field, for each conversation; kept in the tab until it is sent, or the person signs out.

import { useLayoutEffect, useState } from "../../html.js";

const PREFIX = "runtally.draft.";

/** @typedef {ReturnType<typeof useDraft>} Draft */

/**
 * The text of the conversation with this key; `name` is that of new ones, which have none in the URL yet.
 * @param {string} conversation
 * @param {string} name
 */
export function useDraft(conversation, name) {
  const [text, setText] = useState("");
  useLayoutEffect(() => setText(sessionStorage.getItem(PREFIX + name) ?? ""), [conversation]);
  const write = (/** @type {string} */ next) => {
    setText(next);
    if (next) sessionStorage.setItem(PREFIX + name, next);
    else sessionStorage.removeItem(PREFIX + name);
  };
  return { text, write };
}
