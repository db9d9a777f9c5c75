// After which failures a request is repeated, and when.
import { ApiError, ConnectionFailed, RuntallyError } from "./errors.js";

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 8_000;
/** A server that names a longer time is not waited for: its error is thrown. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/** The server has not begun with the request. */
const REFUSED = new Set([429, 503]);
const OF_PROXIES = new Set([502, 504]);
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);

/** Nothing was received for too long. */
export class Silence extends Error {}

/** Which requests may be repeated. */
export interface Repeating {
  /** Whether the server may get the request twice. */
  repeatable: boolean;
  /** Whether an invalid response is one more lost connection. */
  streaming: boolean;
}

/** The failures of one request in a row. */
export class Retries {
  readonly #url: string;
  readonly #maxRetries: number;
  #failures = 0;
  #baseMs = FIRST_DELAY_MS;

  constructor(url: string, maxRetries: number) {
    this.#url = url;
    this.#maxRetries = maxRetries;
  }

  /** There was progress: the next failure is the first one again. */
  reset(): void {
    this.#failures = 0;
  }

  /** Use the `retry:` of an event stream as the first delay. */
  setBase(milliseconds: number): void {
    this.#baseMs = Math.min(milliseconds, LONGEST_DELAY_MS);
  }

  /** The milliseconds to wait before the request is repeated; throws the client's error if it must not be. */
  delayAfter(error: unknown, repeating: Repeating): number {
    const failure = this.#explained(error);
    this.#failures += 1;
    const retryAfterMs = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
    if (this.#failures > this.#maxRetries || retryAfterMs > LONGEST_RETRY_AFTER_MS || !mayRepeat(error, repeating)) {
      throw failure;
    }
    const delayMs = Math.min(this.#baseMs * 2 ** (this.#failures - 1), LONGEST_DELAY_MS);
    // Spread, so that the clients of a server that is back do not all come at once.
    return retryAfterMs + delayMs * (0.5 + Math.random() / 2);
  }

  #explained(error: unknown): Error {
    if (error instanceof RuntallyError) return error;
    const reason = codeOf(error) || (error instanceof Error ? error.message : String(error));
    const sentence = NOT_SENT.has(codeOf(error))
      ? `No server can be reached at ${this.#url} (${reason}).`
      : `The connection to ${this.#url} was lost (${reason}).`;
    return new ConnectionFailed(sentence, { cause: error });
  }
}

function mayRepeat(error: unknown, { repeatable, streaming }: Repeating): boolean {
  if (error instanceof ApiError) {
    return REFUSED.has(error.status) || (OF_PROXIES.has(error.status) && error.code === "" && repeatable);
  }
  if (error instanceof RuntallyError) return streaming;
  return repeatable || NOT_SENT.has(codeOf(error));
}

/** The code of a failure of Node's `fetch`; browsers have none. */
function codeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && "code" in cause ? String(cause.code) : "";
}

/** Wait; throws the signal's reason when it is aborted. */
export async function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(finish, milliseconds);
    function finish(): void {
      signal?.removeEventListener("abort", finish);
      clearTimeout(timer);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    }
    signal?.addEventListener("abort", finish);
  });
}
