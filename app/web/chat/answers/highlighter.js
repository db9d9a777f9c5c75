// Finds the colours of code in a process of its own: no code blocks the page, whatever the model wrote.

const LIMIT_MS = 2000;

/** @typedef {[text: string, kind: string][]} Pieces a code in parts, each with its class or "" */

/** @type {Worker | null} */
let worker = null;
/** One code after the other. @type {Promise<unknown>} */
let last = Promise.resolve();

/**
 * The code in parts; null if the language is unknown, or it takes too long.
 * @param {string} code
 * @param {string} language
 * @returns {Promise<Pieces | null>}
 */
export function highlighted(code, language) {
  const found = last.then(() => ask(code, language));
  last = found;
  return found;
}

/**
 * @param {string} code
 * @param {string} language
 * @returns {Promise<Pieces | null>}
 */
function ask(code, language) {
  const asked = (worker ??= new Worker(new URL("./highlight_worker.js", import.meta.url), { type: "module" }));
  return new Promise((resolve) => {
    const end = (/** @type {Pieces | null} */ pieces) => {
      clearTimeout(timer);
      resolve(pieces);
    };
    const giveUp = () => {
      asked.terminate();
      worker = null;
      end(null);
    };
    const timer = setTimeout(giveUp, LIMIT_MS);
    asked.onmessage = ({ data }) => end(data);
    asked.onerror = giveUp;
    asked.postMessage({ code, language });
  });
}
