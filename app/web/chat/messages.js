// Sentences for errors and states.

/** @import { ApiError } from "../api.js" */
/** @import { Activity, RunState } from "../runs/run_state.js" */

import { locale, t, tIfKnown } from "../languages.js";
import { count } from "../parts/format.js";
import { readable } from "./markdown.js";

const NAME = /^[\w.-]+$/;
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
  const activity = run.status && ACTIVITIES[run.status.phase]?.(run.status);
  return activity ?? t(run.started ? "activity-working" : "activity-starting");
}

/** @type {Record<Schemas["Status"]["phase"], (status: Activity) => string>} */
const ACTIVITIES = {
  thinking: () => t("activity-thinking"),
  // A tool says itself how far it is.
  tool_use: ({ label }) => (NAME.test(label) ? t("activity-tool", { tool: toolTitle(label) }) : readable(label)),
  compacting: () => t("activity-compacting"),
  retrying: ({ attempt, inS }) =>
    attempt && inS ? t("activity-retrying-in", { attempt, seconds: Math.ceil(inS) }) : t("activity-retrying"),
  waiting: () => t("activity-waiting"),
};

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
