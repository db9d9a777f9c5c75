// Sentences for errors and states.

/** @import { ApiError } from "../api.js" */
/** @import { RunState } from "../runs/run_state.js" */

/** @type {Record<string, string>} */
const RUN_ERRORS = {
  "timeout/max_turns": "It reached its limit of steps.",
  "rate_limit/budget": "It used up its budget.",
  timeout: "It exceeded its time limit.",
  aborted: "Stopped.",
  rate_limit: "The model’s provider is overloaded. Try again in a moment.",
  insufficient_credits: "The account has no credit left.",
  budget_reached: "A budget of the account is used up.",
  provider_unavailable: "The model’s provider cannot be reached, or it rejects this server’s requests.",
  provider_refused: "The model’s provider refuses this server’s calls. Its operator must act.",
  agent_unavailable: "The agent’s program failed on this server. Try again in a moment.",
  refused: "The model refuses to answer this.",
  length: "The answer is longer than a message of the model may be.",
  context: "The conversation is longer than the model can read.",
  tool_server_unavailable: "A tool server that the agent needs cannot be reached. Try again in a moment.",
  database_unavailable: "The account’s credit could not be checked. Try again in a moment.",
  invalid_request: "The provider rejected this request. It or the conversation may be too long.",
  not_found: "A resource that the run needs does not exist.",
  internal: "An internal error occurred on the server.",
};

/** @type {Record<string, string>} */
const API_ERRORS = {
  unreachable: "The server cannot be reached. Check your connection and try again.",
  forbidden: "You are not allowed to do this.",
  no_token: "This site has not signed you in. Sign in there, or reload the page.",
  token_expired: "Your sign-in has expired. Reload the page.",
  token_refused: "The sign-in of this site is not accepted here.",
  // Other pages than those that are embedded ask people to sign in.
  unauthenticated: "The sign-in of this site is not accepted here.",
  insufficient_credits: RUN_ERRORS.insufficient_credits,
  budget_reached: RUN_ERRORS.budget_reached,
  queue_full: "Too many runs are waiting. Try again in a moment.",
  session_busy: "A run of this conversation has not ended yet. Stop it first.",
  session_of_other_executor: "This conversation belongs to another executor. Choose one of its graphs.",
  session_not_found: "There is no such conversation, or it was deleted.",
  run_not_found: "There is no such run.",
  graph_not_found: "This graph does not exist any more. Choose another.",
  messages_not_stored: "The message is not stored any more, so it cannot be answered again. Write it anew.",
  too_many_branches: "This conversation has as many versions as it may have. Continue one of them, or fork it.",
  run_deleted: "What this answer said was deleted.",
  nothing_to_fork: "There are no messages up to this point that could be copied.",
  permission_decided: "It was decided already.",
  question_answered: "It was answered already, or its time was up.",
  run_ended: "The run has ended already.",
  shutting_down: "The server is being restarted. Try again in a moment.",
  payload_too_large: "This message is too long.",
};

const TOOL_FAILED = "It failed.";

/** @type {Record<string, string>} */
const TOOL_ERRORS = {
  unknown_tool: "There is no such tool.",
  policy_denied: "It was not allowed.",
  invalid_args: "The model called it with invalid arguments.",
  timeout: "It took too long.",
  too_large: "Its result is too large.",
  tool_server_unavailable: "Its server cannot be reached.",
};

/**
 * Why a run did not succeed.
 * @param {string} error
 * @param {string | null} finishReason
 */
export function runProblem(error, finishReason) {
  return RUN_ERRORS[`${error}/${finishReason}`] ?? RUN_ERRORS[error] ?? "The run did not succeed.";
}

/**
 * Why a request failed.
 * @param {ApiError} error
 */
export function apiProblem(error) {
  return API_ERRORS[error.code] ?? error.message;
}

/**
 * Why a tool call failed.
 * @param {unknown} result
 */
export function toolProblem(result) {
  const error = isObject(result) ? result.error : undefined;
  return typeof error === "string" ? (TOOL_ERRORS[error] ?? TOOL_FAILED) : TOOL_FAILED;
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
  if (run.stopping) return "Stopping…";
  if (run.queuePosition)
    return run.queuePosition === 1 ? "Waiting: next in line" : `Waiting: number ${run.queuePosition} in line`;
  if (run.pendingApprovals.length) return "Waiting for you to decide";
  if (run.pendingQuestions.length) return "Waiting for your answer";
  if (run.status?.phase === "tool_use") return `Using ${toolTitle(run.status.label)}`;
  if (run.status?.phase === "waiting") return run.status.label;
  if (run.status?.phase === "compacting") return "Summarizing earlier messages";
  if (run.status?.phase === "thinking") return "Thinking";
  return run.started ? "Working" : "Starting";
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
 * The size of a text.
 * @param {number} chars
 */
export function sizeOf(chars) {
  if (chars < 10_000) return `${chars} characters`;
  return chars < 1_000_000
    ? `${Math.round(chars / 1000)} thousand characters`
    : `${(chars / 1e6).toFixed(1)} million characters`;
}
