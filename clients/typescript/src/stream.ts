// RunStream: the events of a run, and what can be done with it meanwhile.
import { segment, type Call, type Connection, type Exchange } from "./connection.js";
import { ConnectionFailed, errorOf, Forbidden, InvalidResponse, isObject, RuntallyError } from "./errors.js";
import { EventStreamDecoder, type Frame } from "./event-stream.js";
import { pause, type Retries } from "./retries.js";
import type {
  AcceptedRun,
  Decision,
  GraphFinal,
  RequestOptions,
  Run,
  RunEvent,
  RunRequest,
  SentMessage,
} from "./types.js";

/** A connection that has lasted so long with heartbeats only counts as progress. */
const ALIVE_MS = 5_000;

const KNOWN: ReadonlySet<string> = new Set<Exclude<RunEvent["type"], "unknown">>([
  "queued",
  "run_started",
  "text_delta",
  "thinking_delta",
  "message_discarded",
  "status",
  "step",
  "tool_call_start",
  "tool_call_result",
  "citation",
  "user_message",
  "permission_request",
  "budget_reached",
  "permission_resolved",
  "question",
  "question_resolved",
  "client_tool_call",
  "warning",
  "interrupted",
  "files_changed",
  "assistant_final",
  "error",
  "done",
]);

/** What a stream asks of the client that made it. */
export interface RunCommands {
  get(runId: string, options: RequestOptions): Promise<Run>;
  cancel(runId: string): Promise<AcceptedRun>;
  interrupt(runId: string, options: { after?: "tool" }): Promise<AcceptedRun>;
  send(runId: string, text: string, options: { priority: "now" | "next" | "later" }): Promise<SentMessage>;
  decide(runId: string, requestId: string, decision: Decision): Promise<void>;
  answer(runId: string, requestId: string, answers: Record<string, string | string[]> | null): Promise<void>;
  submitToolResult(runId: string, toolCallId: string, result: unknown, options: { isError?: boolean }): Promise<void>;
}

/** What a stream begins with: a run to start, or the id of one and the position after which to read. */
export interface StreamStart extends RequestOptions {
  runId: string;
  request?: RunRequest;
  after?: number;
}

/**
 * The events of a run, each once and in order; it reconnects by itself. Leaving the loop does not stop the run: another loop
 * over the same stream continues after the last event.
 */
export class RunStream implements AsyncIterable<RunEvent> {
  readonly runId: string;
  readonly #client: RunCommands;
  readonly #connection: Connection;
  readonly #request: RunRequest | undefined;
  readonly #signal: AbortSignal | undefined;
  readonly #retries: Retries;
  /** Until the server has accepted the run. */
  #joinsByRequest: boolean;
  /** Whether the key may read runs, and not only start them. */
  #mayRead = true;
  #position: number;
  #ended = false;
  #final: GraphFinal | undefined;

  constructor(client: RunCommands, connection: Connection, start: StreamStart) {
    this.runId = start.runId;
    this.#client = client;
    this.#connection = connection;
    this.#request = start.request;
    this.#signal = start.signal;
    this.#retries = connection.retries();
    this.#joinsByRequest = start.request !== undefined;
    this.#position = start.after ?? 0;
  }

  /** The position of the last event received: `follow(runId, { after })` continues there. */
  get lastEventId(): number {
    return this.#position;
  }

  /** How the run ended; throws before all events are read. */
  get final(): GraphFinal {
    if (this.#final === undefined) {
      throw new RuntallyError(`The run ${this.runId} is followed still: read its events to the end, or call result().`);
    }
    return this.#final;
  }

  /** Read the events that are left and return how the run ended. */
  async result(): Promise<GraphFinal> {
    for await (const _ of this);
    return this.final;
  }

  cancel(): Promise<AcceptedRun> {
    return this.#client.cancel(this.runId);
  }

  interrupt(options: { after?: "tool" } = {}): Promise<AcceptedRun> {
    return this.#client.interrupt(this.runId, options);
  }

  send(text: string, priority: "now" | "next" | "later" = "next"): Promise<SentMessage> {
    return this.#client.send(this.runId, text, { priority });
  }

  decide(requestId: string, decision: Decision): Promise<void> {
    return this.#client.decide(this.runId, requestId, decision);
  }

  answer(requestId: string, answers: Record<string, string | string[]> | null): Promise<void> {
    return this.#client.answer(this.runId, requestId, answers);
  }

  submitToolResult(toolCallId: string, result: unknown, options: { isError?: boolean } = {}): Promise<void> {
    return this.#client.submitToolResult(this.runId, toolCallId, result, options);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<RunEvent, void, undefined> {
    while (!this.#ended) {
      try {
        yield* this.#connected();
      } catch (error) {
        this.#signal?.throwIfAborted();
        await pause(this.#delayAfter(error), this.#signal);
      }
    }
    this.#final ??= await this.#result();
  }

  async *#connected(): AsyncGenerator<RunEvent, void, undefined> {
    const exchange = await this.#connection.open(this.#call());
    try {
      const { response } = exchange;
      if (!response.ok) throw await errorOf(response);
      const kind = response.headers.get("content-type") ?? "no type";
      if (!/^text\/event-stream\s*(;|$)/i.test(kind) || response.body === null) {
        throw new InvalidResponse(`The response of ${response.url} is no event stream but ${kind}.`);
      }
      this.#joinsByRequest = !this.#mayRead;
      yield* this.#received(exchange, response.body.getReader());
      if (!this.#ended) {
        throw new ConnectionFailed(
          `${this.#connection.url} closed the stream of the run ${this.runId} before its end.`,
        );
      }
    } finally {
      exchange.close();
    }
  }

  async *#received(
    exchange: Exchange,
    reader: ReadableStreamDefaultReader<Uint8Array>,
  ): AsyncGenerator<RunEvent, void, undefined> {
    const decoder = new EventStreamDecoder();
    const openedAt = Date.now();
    while (!this.#ended) {
      const { done, value } = await reader.read();
      if (done) return;
      for (const frame of decoder.feed(value)) {
        exchange.alive();
        if (frame.data !== "") {
          const event = this.#accepted(frame);
          if (event !== null) yield event;
        } else if (frame.retryMs !== null) {
          this.#retries.setBase(frame.retryMs);
        } else if (Date.now() - openedAt > ALIVE_MS) {
          this.#retries.reset();
        }
      }
    }
  }

  /** The event of a frame; null for one that was received before. */
  #accepted(frame: Frame): RunEvent | null {
    const data = jsonOf(frame.data);
    const position = /^[0-9]{1,15}$/.test(frame.id) ? Number(frame.id) : 0;
    if (position === 0 || !isObject(data)) {
      throw new InvalidResponse(`An event of the run ${this.runId} has no position or no fields.`);
    }
    if (position <= this.#position) return null;
    this.#position = position;
    this.#retries.reset();
    const kind = frame.event || String(data["type"]);
    this.#ended = kind === "done";
    return KNOWN.has(kind) ? (data as RunEvent) : { type: "unknown", kind, data };
  }

  #call(): Call {
    const headers = { Accept: "text/event-stream" };
    if (this.#joinsByRequest) {
      return { method: "POST", path: "/v1/runs/stream", body: this.#request, headers, signal: this.#signal };
    }
    return {
      method: "GET",
      path: `/v1/runs/${segment(this.runId)}/events`,
      headers: this.#position === 0 ? headers : { ...headers, "Last-Event-ID": String(this.#position) },
      signal: this.#signal,
    };
  }

  #delayAfter(error: unknown): number {
    if (error instanceof Forbidden && this.#request !== undefined && !this.#joinsByRequest) {
      this.#joinsByRequest = true;
      this.#mayRead = false;
      return 0;
    }
    return this.#retries.delayAfter(error, { repeatable: true, streaming: true });
  }

  async #result(): Promise<GraphFinal> {
    try {
      const { final } = await this.#client.get(this.runId, { signal: this.#signal });
      if (final) return final;
    } catch (error) {
      if (!(error instanceof Forbidden) || this.#request === undefined) throw error;
      return this.#connection.json({
        method: "POST",
        path: "/v1/runs/wait",
        body: this.#request,
        signal: this.#signal,
      });
    }
    throw new InvalidResponse(`The run ${this.runId} has ended, and the server has no result of it.`);
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new InvalidResponse("An event is not JSON.", { cause: error });
  }
}
