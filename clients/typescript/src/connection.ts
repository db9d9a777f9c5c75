// Where the server is, with which key, and how requests are sent to it.
import { ConfigurationError, errorOf, InvalidResponse } from "./errors.js";
import { pause, Retries, Silence } from "./retries.js";

const DEFAULT_URL = "http://127.0.0.1:8000";
/** Four times as long as a server is silent on a stream. */
const DEFAULT_TIMEOUT_MS = 60_000;
const DEFAULT_RETRIES = 5;

/** The settings of a client. */
export interface ClientOptions {
  /** RUNTALLY_URL by default; in a page, the page's own server. */
  baseUrl?: string;
  /** RUNTALLY_API_KEY by default; in a page, the cookie of a browser session. */
  apiKey?: string;
  /** How long a server may be silent, not how long a run may take. */
  timeoutMs?: number;
  /** How often in a row a request that fails for a passing reason is repeated. */
  maxRetries?: number;
  /** Instead of the global one. */
  fetch?: typeof fetch;
  /** Of requests without a key: `include` for a page of another origin on the same site. */
  credentials?: RequestCredentials;
}

/** One request. */
export interface Call {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  path: string;
  query?: Record<string, string | number | boolean | Date | undefined>;
  body?: unknown;
  /** Instead of `body`: values that are sent as lines of JSON. */
  lines?: unknown[];
  headers?: Record<string, string>;
  /** Whether the server may get it twice; true by default. */
  repeatable?: boolean;
  signal?: AbortSignal | undefined;
}

/** A request that was sent, whose timer runs until it is closed. */
export interface Exchange {
  response: Response;
  /** Something was received: the time without anything begins again. */
  alive(): void;
  /** End it; what was not read is discarded. */
  close(): void;
}

export class Connection {
  readonly url: string;
  readonly timeoutMs: number;
  readonly maxRetries: number;
  readonly #apiKey: string | undefined;
  readonly #fetch: typeof fetch;
  readonly #credentials: RequestCredentials;

  constructor(options: ClientOptions) {
    const page = typeof document !== "undefined";
    this.url = (options.baseUrl ?? environment("RUNTALLY_URL") ?? (page ? "" : DEFAULT_URL)).replace(/\/+$/, "");
    this.#apiKey = options.apiKey ?? environment("RUNTALLY_API_KEY");
    this.timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.maxRetries = options.maxRetries ?? DEFAULT_RETRIES;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#credentials = options.credentials ?? "same-origin";
    if (!page && !/^https?:\/\/[^/]/.test(this.url)) {
      throw new ConfigurationError(`The URL of the server must start with http:// or https://: ${this.url}`);
    }
    if (!page && !this.#apiKey) {
      throw new ConfigurationError("RUNTALLY_API_KEY is not set; set it to the API key to use.");
    }
    if (this.#apiKey !== undefined && !/^[!-~]*$/.test(this.#apiKey)) {
      throw new ConfigurationError("The API key has characters that a key cannot have.");
    }
  }

  retries(): Retries {
    return new Retries(this.url, this.maxRetries);
  }

  /** Send a request once. Redirects are not followed: the key is for this server only. */
  async open(call: Call): Promise<Exchange> {
    call.signal?.throwIfAborted();
    const controller = new AbortController();
    const abort = (): void => controller.abort(call.signal?.reason);
    call.signal?.addEventListener("abort", abort);
    const expire = (): void => controller.abort(new Silence(`nothing was received for ${this.timeoutMs} ms`));
    let timer = setTimeout(expire, this.timeoutMs);
    const close = (): void => {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", abort);
      controller.abort();
    };
    try {
      const response = await this.#fetch(this.url + call.path + queryOf(call), {
        method: call.method,
        headers: this.#headers(call),
        redirect: "manual",
        cache: "no-store",
        credentials: this.#apiKey === undefined ? this.#credentials : "omit",
        signal: controller.signal,
        ...bodyOf(call),
      });
      const alive = (): void => {
        clearTimeout(timer);
        timer = setTimeout(expire, this.timeoutMs);
      };
      return { response, alive, close };
    } catch (error) {
      close();
      throw error;
    }
  }

  /** Send a request as often as it takes; returns the JSON of the response, null if it has no body. */
  async json<T>(call: Call): Promise<T> {
    return (await this.#repeated(call, jsonOf)) as T;
  }

  /** The same for a response that is a file. */
  async bytes(call: Call): Promise<Uint8Array> {
    return this.#repeated(call, bytesOf);
  }

  async #repeated<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    const retries = this.retries();
    for (;;) {
      try {
        return await this.#once(call, read);
      } catch (error) {
        call.signal?.throwIfAborted();
        await pause(retries.delayAfter(error, { repeatable: call.repeatable ?? true, streaming: false }), call.signal);
      }
    }
  }

  async #once<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    const exchange = await this.open(call);
    try {
      if (!exchange.response.ok) throw await errorOf(exchange.response);
      return await read(exchange.response);
    } finally {
      exchange.close();
    }
  }

  #headers(call: Call): Record<string, string> {
    const headers: Record<string, string> = { ...call.headers };
    if (this.#apiKey !== undefined) headers["Authorization"] = `Bearer ${this.#apiKey}`;
    if (call.body !== undefined) headers["Content-Type"] = "application/json";
    if (call.lines !== undefined) headers["Content-Type"] = "application/jsonl";
    return headers;
  }
}

/** One segment of a path; throws a `TypeError` for what would be another path. */
export function segment(name: string): string {
  if (name === "" || name === "." || name === "..") throw new TypeError(`"${name}" is no id`);
  return encodeURIComponent(name);
}

/** A UUID; `crypto.randomUUID` is missing in pages over plain http. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function bodyOf(call: Call): { body?: string } {
  if (call.lines !== undefined) return { body: call.lines.map((line) => `${JSON.stringify(line)}\n`).join("") };
  return call.body === undefined ? {} : { body: JSON.stringify(call.body) };
}

function queryOf(call: Call): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(call.query ?? {})) {
    if (value !== undefined) query.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  return query.size === 0 ? "" : `?${query}`;
}

async function jsonOf(response: Response): Promise<unknown> {
  const body = await response.text();
  if (response.headers.get("content-type")?.startsWith("application/jsonl")) {
    return body
      .split("\n")
      .filter(Boolean)
      .map((line) => parsed(line, response));
  }
  return body === "" ? null : parsed(body, response);
}

/** No server of ours sends a file as a page: a proxy does. */
async function bytesOf(response: Response): Promise<Uint8Array> {
  if (response.headers.get("content-type")?.startsWith("text/html")) throw otherThan("a file", response);
  return new Uint8Array(await response.arrayBuffer());
}

function otherThan(expected: string, response: Response, cause?: unknown): InvalidResponse {
  const kind = response.headers.get("content-type") ?? "no type";
  const message = `The response of ${response.url} is not ${expected} but ${kind}. Is it a Runtally server?`;
  return new InvalidResponse(message, { cause });
}

function parsed(body: string, response: Response): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    throw otherThan("JSON", response, error);
  }
}

/** A variable of the environment, where there is one. */
function environment(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}
