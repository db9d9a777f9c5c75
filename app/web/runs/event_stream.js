// Follows a run's events to the end, across lost connections.

import { ApiError, apiPath, getStream } from "../api.js";

const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 10_000;
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
  const stopped = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let position = 0;
  let retryMs = FIRST_RETRY_MS;

  const stop = () => {
    stopped.abort();
    clearTimeout(timer);
  };
  const receive = (/** @type {Frame} */ { id, data, retry }) => {
    if (retry) retryMs = Number(retry);
    if (stopped.signal.aborted || !data || Number(id) <= position) return;
    position = Number(id);
    /** @type {ClientEvent} */
    const event = JSON.parse(data);
    if (event.type === "done") stop();
    onEvent(event);
  };
  const connect = async () => {
    try {
      const path = apiPath("/v1/runs/{runId}/events", { runId, after: position });
      const stream = await getStream(path, stopped.signal);
      onConnection(false);
      // Everything has been read.
      if (stream === null) return;
      await readFrames(stream, receive);
    } catch (error) {
      if (stopped.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      if (isFinal(error)) return onFailure(error);
    }
    if (stopped.signal.aborted) return;
    onConnection(true);
    timer = setTimeout(connect, retryMs);
    retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
  };
  connect();
  return stop;
}

/** Whether another attempt would fail as well. @param {ApiError} error */
function isFinal({ status }) {
  return status >= 400 && status < 500 && status !== TOO_MANY;
}

/** The fields of a server-sent event, of which ours have one line each. @typedef {Record<string, string>} Frame */

/**
 * Pass on the events of a stream until it ends.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {(frame: Frame) => void} receive
 */
async function readFrames(stream, receive) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  // A connection that breaks off has ended.
  const next = () => reader.read().catch(() => ({ done: true, value: undefined }));
  for (let part = await next(); !part.done; part = await next()) {
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
