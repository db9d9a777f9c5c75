// The clipboard, which pages that are loaded by plain http from another machine do not have.

/**
 * Copy a text; false if the browser does not allow it.
 * @param {string} text
 */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
