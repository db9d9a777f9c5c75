// What two runs are compared by, from their events.

import { useEffect, useState } from "../html.js";
import { followRun } from "./event_stream.js";

/**
 * `problem` is why the events are not known; then there are no steps.
 * @typedef {{firstTextAt: string | null, steps: number | null, tools: string[], problem: string}} Progress
 */

/** @type {Progress} */
const NONE = { firstTextAt: null, steps: 0, tools: [], problem: "" };

/**
 * What a run has done so far.
 * @param {string} runId
 */
export function useProgress(runId) {
  const [progress, setProgress] = useState(NONE);
  useEffect(() => {
    setProgress(NONE);
    return followRun(runId, {
      onEvent: (event) => setProgress((so) => after(so, event)),
      onConnection: () => {},
      onFailure: (error) => setProgress({ ...NONE, steps: null, problem: error.message }),
    });
  }, [runId]);
  return progress;
}

/**
 * @param {Progress} progress
 * @param {ClientEvent} event
 * @returns {Progress}
 */
export function after(progress, event) {
  switch (event.type) {
    case "text_delta":
      return progress.firstTextAt === null ? { ...progress, firstTextAt: event.at } : progress;
    case "step":
      return { ...progress, steps: (progress.steps ?? 0) + 1 };
    case "tool_call_start":
      return { ...progress, tools: [...progress.tools, event.toolName] };
    default:
      return progress;
  }
}
