// Follow a run's events to their end, through lost connections.

import { ApiError, get, urlOf } from "./api.js";

const EVENT_TYPES = [
  ...["queued", "run_started", "text_delta", "thinking_delta", "status", "step", "tool_call_start"],
  ...["tool_call_result", "user_message", "permission_request", "permission_resolved", "interrupted"],
  ...["assistant_final", "error", "done"],
];
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;

/**
 * Call `hear(event)` for every event of a run, from its first. The browser itself comes back after a lost
 * connection and asks for what it has not heard; where it gives up, we begin anew after the last position.
 * `lost(true)` and `lost(false)` tell whether there is a connection, `failed(error)` that there will be none.
 * Returns a function that leaves.
 */
export function follow(runId, { hear, lost, failed }) {
  let source, timer;
  let position = 0;
  let retryMs = FIRST_RETRY_MS;
  let left = false;

  const leave = () => {
    left = true;
    clearTimeout(timer);
    source?.close();
  };
  const take = (message) => {
    if (Number(message.lastEventId) <= position) return;
    position = Number(message.lastEventId);
    const event = JSON.parse(message.data);
    if (event.type === "done") leave();
    hear(event);
  };
  const again = async () => {
    source.close();
    const error = await get(`v1/runs/${encodeURIComponent(runId)}`).then(() => null, (error) => error);
    if (left) return;
    if (error instanceof ApiError && error.status >= 400 && error.status < 500) return failed(error);
    timer = setTimeout(open, retryMs);
    retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
  };
  const open = () => {
    source = new EventSource(urlOf(`v1/runs/${encodeURIComponent(runId)}/events?after=${position}`));
    source.onopen = () => {
      retryMs = FIRST_RETRY_MS;
      lost(false);
    };
    for (const type of EVENT_TYPES) source.addEventListener(type, (message) => message.data && take(message));
    source.onerror = (event) => {
      // A run's own event `error` comes this way too.
      if (event.data) return;
      lost(true);
      if (source.readyState === EventSource.CLOSED) again();
    };
  };
  open();
  return leave;
}
