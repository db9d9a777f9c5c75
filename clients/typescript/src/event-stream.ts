// Server-sent events from the bytes of a response.
import { InvalidResponse } from "./errors.js";

/** One event of the stream, or, without data, a comment or a `retry:`. */
export interface Frame {
  id: string;
  event: string;
  data: string;
  retryMs: number | null;
}

/** Above any event of a server: its runs have at most `RUNTALLY_MAX_RUN_OUTPUT_MB`, 256 by default. */
const MAX_EVENT_CHARS = 512 * 2 ** 20;

/** Decodes as https://html.spec.whatwg.org/multipage/server-sent-events.html describes; reports comments as well. */
export class EventStreamDecoder {
  readonly #maxEventChars: number;
  readonly #text = new TextDecoder("utf-8");
  #line: string[] = [];
  #afterCr = false;
  #heldChars = 0;
  #id = "";
  #event = "";
  #data: string[] = [];
  #retryMs: number | null = null;

  constructor(maxEventChars = MAX_EVENT_CHARS) {
    this.#maxEventChars = maxEventChars;
  }

  /** The frames that these bytes complete; throws `InvalidResponse` for an event that is too large. */
  *feed(bytes: Uint8Array): Generator<Frame> {
    let chunk = this.#text.decode(bytes, { stream: true });
    if (chunk === "") return;
    if (this.#afterCr && chunk.startsWith("\n")) chunk = chunk.slice(1);
    this.#afterCr = chunk.endsWith("\r");
    const lines = chunk.split(/\r\n|\r|\n/);
    const rest = lines.pop() ?? "";
    for (const line of lines) {
      this.#hold(line);
      const whole = this.#line.join("");
      this.#line = [];
      const frame = this.#decode(whole);
      if (frame !== null) yield frame;
    }
    this.#hold(rest);
  }

  #hold(part: string): void {
    this.#line.push(part);
    this.#heldChars += part.length;
    if (this.#heldChars > this.#maxEventChars) {
      throw new InvalidResponse(`The server sent an event of more than ${this.#maxEventChars} characters.`);
    }
  }

  #decode(line: string): Frame | null {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "") {
      if (this.#data.length === 0) this.#heldChars = 0;
      return { id: this.#id, event: "", data: "", retryMs: null };
    }
    if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^[0-9]{1,9}$/.test(value)) this.#retryMs = Number(value);
    return null;
  }

  #dispatch(): Frame | null {
    const frame = { id: this.#id, event: this.#event, data: this.#data.join("\n"), retryMs: this.#retryMs };
    const empty = this.#data.length === 0 && this.#retryMs === null;
    this.#heldChars = 0;
    this.#event = "";
    this.#data = [];
    this.#retryMs = null;
    return empty ? null : frame;
  }
}
