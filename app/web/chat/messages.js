// Sentences for errors and states.

/** @import { ApiError } from "../api.js" */
/** @import { RunState } from "../runs/run_state.js" */

import { locale, t, tIfKnown } from "../languages.js";
import { count } from "../parts/format.js";

const long = new Intl.NumberFormat(locale, { notation: "compact", compactDisplay: "long" });

/**
 * Why a run did not succeed.
 * @param {string} error
 * @param {string | null} finishReason
 */
export function runProblem(error, finishReason) {
  return tIfKnown(`run-failed-${error}-${finishReason}`) ?? tIfKnown(`run-failed-${error}`) ?? t("run-failed");
}

/**
 * Why a request failed.
 * @param {ApiError} error
 */
export function apiProblem(error) {
  return tIfKnown(`request-failed-${error.code}`) ?? error.message;
}

/**
 * Why a tool call failed.
 * @param {unknown} result
 */
export function toolProblem(result) {
  const error = isObject(result) ? result.error : undefined;
  return tIfKnown(`tool-failed-${error}`) ?? t("tool-failed");
}

/**
 * Whether a JSON value is an object.
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The current activity of a run.
 * @param {RunState} run
 */
export function activityOf(run) {
  if (run.stopping) return t("activity-stopping");
  if (run.queuePosition)
    return run.queuePosition === 1 ? t("activity-next") : t("activity-queued", { position: run.queuePosition });
  if (run.pendingApprovals.length) return t("activity-decision");
  if (run.pendingQuestions.length) return t("activity-answer");
  if (run.status?.phase === "tool_use") return t("activity-tool", { tool: toolTitle(run.status.label) });
  if (run.status?.phase === "waiting") return run.status.label;
  if (run.status?.phase === "compacting") return t("activity-compacting");
  if (run.status?.phase === "thinking") return t("activity-thinking");
  return t(run.started ? "activity-working" : "activity-starting");
}

/**
 * A tool's name for display: `office__send_mail` is "send mail".
 * @param {string} name
 */
export function toolTitle(name) {
  return name
    .slice(name.lastIndexOf("__") + 1)
    .replaceAll("_", " ")
    .trim();
}

/**
 * How much more there is of a text.
 * @param {number} chars
 */
export function moreOf(chars) {
  return t("more-characters", { count: chars, size: chars < 10_000 ? count(chars) : long.format(chars) });
}
