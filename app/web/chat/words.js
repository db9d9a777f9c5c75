// What went wrong, in plain words.

const RUN_ERRORS = {
  "timeout/max_turns": "It used up all the steps it may take.",
  "rate_limit/budget": "It used up its budget.",
  timeout: "It took longer than it may.",
  aborted: "Stopped.",
  rate_limit: "The model’s provider has too much to do. Try again in a moment.",
  insufficient_credits: "The account has no credit left, or its budget for this month is used up.",
  provider_unavailable: "The model’s provider cannot be reached, or it refuses this server.",
  invalid_request: "The provider does not take this request. It may be too long, or the conversation is.",
  not_found: "What was asked for is not there.",
  internal: "Something went wrong on the server.",
};

const API_ERRORS = {
  unreachable: "The server cannot be reached. Check your connection and try again.",
  forbidden: "Your API key may not do this.",
  insufficient_credits: RUN_ERRORS.insufficient_credits,
  queue_full: "Too many runs are waiting. Try again in a moment.",
  session_busy: "A run of this conversation has not ended yet. Stop it first.",
  session_not_found: "There is no such conversation, or it was deleted.",
  run_not_found: "There is no such run.",
  graph_not_found: "This graph is not there any more. Choose another.",
  nothing_to_fork: "Nothing was said up to here that could be gone on with.",
  permission_decided: "Somebody else has decided already.",
  run_ended: "The run has ended already.",
  shutting_down: "The server is being restarted. Try again in a moment.",
  payload_too_large: "This message is too long.",
};

const TOOL_ERRORS = {
  unknown_tool: "There is no such tool.",
  policy_denied: "It was not allowed.",
  invalid_args: "The model called it in a way it does not take.",
  timeout: "It took too long.",
  too_large: "It answered more than fits.",
  failed: "It failed.",
};

/** Why a run did not succeed. */
export function runProblem(error, finishReason) {
  return RUN_ERRORS[`${error}/${finishReason}`] ?? RUN_ERRORS[error] ?? "The run did not succeed.";
}

/** Why the server refused something. */
export function apiProblem(error) {
  return API_ERRORS[error.code] ?? error.message;
}

/** Why a tool call failed. */
export function toolProblem(result) {
  return TOOL_ERRORS[result?.error] ?? TOOL_ERRORS.failed;
}

/** What a run is busy with. */
export function busyWith(run) {
  if (run.stopping) return "Stopping…";
  if (run.queued) return run.queued === 1 ? "Waiting: next in line" : `Waiting: number ${run.queued} in line`;
  if (run.waiting.length) return "Waiting for you to decide";
  if (run.phase?.phase === "tool_use") return `Using ${toolTitle(run.phase.label)}`;
  if (run.phase?.phase === "compacting") return "Summing up what was said before";
  if (run.phase?.phase === "thinking") return "Thinking";
  return run.started ? "Working" : "Starting";
}

/** A tool's name for people: `office__send_mail` is "send mail". */
export function toolTitle(name) {
  return name.split("__").at(-1).replaceAll("_", " ");
}

/** How much text that is. */
export function sizeOf(chars) {
  if (chars < 10_000) return `${chars} characters`;
  return chars < 1_000_000 ? `${Math.round(chars / 1000)} thousand characters` : `${(chars / 1e6).toFixed(1)} million characters`;
}
