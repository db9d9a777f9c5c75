// Follows a run's events to the end, across lost connections.

import { ApiError, apiPath, apiUrl, get } from "../api.js";
import { EVENT_TYPES } from "./run_state.js";

const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 10_000;

/**
 * Call `onEvent` for each event of a run, from the first one. The browser reconnects by itself and asks for the
 * events it has missed; if it gives up, a new connection starts after the last position received.
 * Returns a function that stops following.
 *
 * @param {string} runId
 * @param {object} listeners
 * @param {(event: ClientEvent) => void} listeners.onEvent
 * @param {(isLost: boolean) => void} listeners.onConnection
 * @param {(error: ApiError) => void} listeners.onFailure the run cannot be followed at all
 * @returns {() => void}
 */
export function followRun(runId, { onEvent, onConnection, onFailure }) {
  /** @type {EventSource | undefined} */
  let source;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let position = 0;
  let retryMs = FIRST_RETRY_MS;
  let isStopped = false;

  const stop = () => {
    isStopped = true;
    clearTimeout(timer);
    source?.close();
  };
  /** @param {MessageEvent<string>} message */
  const receive = (message) => {
    if (Number(message.lastEventId) <= position) return;
    position = Number(message.lastEventId);
    /** @type {ClientEvent} */
    const event = JSON.parse(message.data);
    if (event.type === "done") stop();
    onEvent(event);
  };
  const reconnect = async () => {
    source?.close();
    const error = await get(apiPath("/v1/runs/{runId}", { runId })).then(
      () => null,
      (problem) => problem,
    );
    if (isStopped) return;
    if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
      onFailure(error);
      return;
    }
    timer = setTimeout(connect, retryMs);
    retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
  };
  const connect = () => {
    const path = apiPath("/v1/runs/{runId}/events", { runId, after: position });
    const connection = new EventSource(apiUrl(path));
    source = connection;
    connection.onopen = () => {
      retryMs = FIRST_RETRY_MS;
      onConnection(false);
    };
    for (const type of EVENT_TYPES) {
      connection.addEventListener(type, (message) => {
        if (message.data) receive(message);
      });
    }
    connection.onerror = (message) => {
      // The run's own event `error` arrives here as well; only that one has data.
      if ("data" in message && message.data) return;
      onConnection(true);
      if (connection.readyState === EventSource.CLOSED) reconnect();
    };
  };
  connect();
  return stop;
}
