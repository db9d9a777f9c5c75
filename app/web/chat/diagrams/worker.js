// The worker of diagram.js.

import { STARTED } from "../answers/time_limit.js";
import { drawing } from "./drawing.js";
import { Undrawable } from "./problems.js";

self.onmessage = async ({ data: source }) => {
  self.postMessage(STARTED);
  // A rejection would not reach the page.
  await answer(source).then((found) => self.postMessage(found), reportError);
};

/**
 * @param {string} source
 * @returns {Promise<import("./diagram.js").Answer>}
 */
async function answer(source) {
  try {
    return { drawing: await drawing(source), problem: null };
  } catch (error) {
    if (!(error instanceof Undrawable)) throw error;
    return { drawing: null, problem: error.problem };
  }
}
