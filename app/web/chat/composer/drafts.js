// What is not sent yet: the text of each conversation, and the files that were attached last. Kept in the tab until it is
// sent, or the person signs out.

/** @import { Attached } from "../conversation.js" */

import { useLayoutEffect, useState } from "../../html.js";

const PREFIX = "runtally.draft.";
const FILES = "runtally.files";
/** Texts get the rest of the five million characters that a tab may keep. */
const MAX_FILES_LENGTH = 4_000_000;
const BASE64 = 4 / 3;

/** @typedef {ReturnType<typeof useDraft>} Draft */
/** @typedef {{file: Pick<File, "name" | "size" | "type">, part: Attached["part"] | null}} DraftFile */

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

/**
 * The files that are kept under this name.
 * @param {string | null} name
 * @returns {DraftFile[]}
 */
export function keptFiles(name) {
  const kept = JSON.parse(sessionStorage.getItem(FILES) ?? "{}");
  return kept.name === name ? kept.files : [];
}

/**
 * Keep these files in place of those that were kept before; false if they are too large for that.
 * @param {string} name
 * @param {DraftFile[]} files
 */
export function keepFiles(name, files) {
  if (files.length > 0 || keptFiles(name).length > 0) sessionStorage.removeItem(FILES);
  if (files.length === 0) return true;
  if (files.reduce((sum, { file }) => sum + file.size * BASE64, 0) > MAX_FILES_LENGTH) return false;
  const described = files.map(({ file: { name, size, type }, part }) => ({ file: { name, size, type }, part }));
  try {
    sessionStorage.setItem(FILES, JSON.stringify({ name, files: described }));
  } catch {
    // Long texts have left less.
    return false;
  }
  return true;
}
