// Work on what a model wrote, in a process of its own: none of it blocks the page, whatever the model wrote.

/**
 * A function that asks a worker: one question after the other. The worker says when it `STARTED` with one, and then
 * its answer; null if that takes too long, undefined if the worker cannot be loaded or fails.
 * @template Question, Answer
 * @param {URL} script
 * @param {number} limitMs
 * @returns {(question: Question) => Promise<Answer | null | undefined>}
 */
export function withTimeLimit(script, limitMs) {
  /** @type {Worker | null} */
  let worker = null;
  /** @type {Promise<unknown>} */
  let last = Promise.resolve();

  /** @param {Question} question @returns {Promise<Answer | null | undefined>} */
  function ask(question) {
    const asked = (worker ??= new Worker(script, { type: "module" }));
    /** @type {ReturnType<typeof setTimeout>} */
    let timer;
    return new Promise((resolve) => {
      const end = (/** @type {Answer | null | undefined} */ answer) => {
        clearTimeout(timer);
        resolve(answer);
      };
      const giveUp = (/** @type {null | undefined} */ answer) => {
        asked.terminate();
        worker = null;
        end(answer);
      };
      asked.onmessage = ({ data }) => {
        if (data === STARTED) timer = setTimeout(giveUp, limitMs, null);
        else end(data);
      };
      asked.onerror = () => giveUp(undefined);
      asked.postMessage(question);
    });
  }

  return (question) => {
    const answer = last.then(() => ask(question));
    last = answer;
    return answer;
  };
}

export const STARTED = "started";
