// Follows a run's events to the end, across lost connections.

import { ApiError, apiPath, getStream } from "../api.js";
import { whenBack } from "../parts/presence.js";

const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 10_000;
/** Three heartbeats of the server. */
const SILENT_MS = 45_000;
const TOO_MANY = 429;

/**
 * Call `onEvent` for each event of a run, from the first one. After a lost connection another one starts after the
 * last position received. `EventSource` can send no tokens.
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
  let connection = new AbortController();
  /** Of the next attempt: after a pause, or when nothing has come for too long. @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let lost = false;
  let heardAt = 0;
  let position = 0;
  let retryMs = FIRST_RETRY_MS;

  const stop = () => {
    connection.abort();
    clearTimeout(timer);
    leave();
  };
  const next = (/** @type {number} */ pauseMs) => {
    clearTimeout(timer);
    timer = setTimeout(connect, pauseMs);
  };
  const receive = (/** @type {Frame} */ { id, data, retry }) => {
    if (retry) retryMs = Number(retry);
    if (connection.signal.aborted || !data || Number(id) <= position) return;
    position = Number(id);
    /** @type {ClientEvent} */
    const event = JSON.parse(data);
    if (event.type === "done") stop();
    onEvent(event);
  };
  const connect = async () => {
    connection.abort();
    connection = new AbortController();
    const { signal } = connection;
    const tell = (/** @type {boolean} */ isLost) => onConnection((lost = isLost));
    const hear = () => {
      if (signal.aborted) return;
      heardAt = Date.now();
      next(SILENT_MS);
    };
    hear();
    try {
      const stream = await getStream(apiPath("/v1/runs/{runId}/events", { runId, after: position }), signal);
      tell(false);
      // Everything has been read.
      if (stream === null) return stop();
      await readFrames(stream, { hear, receive });
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      if (isFinal(error)) {
        stop();
        return onFailure(error);
      }
    }
    if (signal.aborted) return;
    tell(true);
    next(retryMs);
    retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
  };
  // Timers of hidden pages are late, and machines that were asleep have lost their connections without being told.
  const leave = whenBack(() => (lost || Date.now() - heardAt > SILENT_MS) && connect());
  connect();
  return stop;
}

/** Whether another attempt would fail as well. @param {ApiError} error */
function isFinal({ status }) {
  return status >= 400 && status < 500 && status !== TOO_MANY;
}

/** The fields of a server-sent event, of which ours have one line each. @typedef {Record<string, string>} Frame */

/**
 * Pass on the events of a stream until it ends; each part of it is heard.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {{hear: () => void, receive: (frame: Frame) => void}} listeners
 */
async function readFrames(stream, { hear, receive }) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  // A connection that breaks off has ended.
  const next = () => reader.read().catch(() => ({ done: true, value: undefined }));
  for (let part = await next(); !part.done; part = await next()) {
    hear();
    const blocks = (rest + decoder.decode(part.value, { stream: true })).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) receive(frameOf(block));
  }
  // A server that stops says at the end when to come back.
  receive({ retry: frameOf(rest).retry });
}

/** @param {string} block @returns {Frame} */
function frameOf(block) {
  const lines = block.split("\n").map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).trimStart()];
  });
  return Object.fromEntries(lines);
}
