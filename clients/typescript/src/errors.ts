// The errors of the client. Every one is a `RuntallyError`; its message can be shown to an operator.
import type { GraphFinal } from "./types.js";

/** Base of all errors of the client, except the reason of an `AbortSignal`, which is thrown as it is. */
export class RuntallyError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The URL or the API key of a client is missing or cannot be used. */
export class ConfigurationError extends RuntallyError {}

/** The server could not be reached, or the connection was lost more often than it is tried again. */
export class ConnectionFailed extends RuntallyError {}

/** The response is none of a Runtally server's: another program, a proxy, or a broken server. */
export class InvalidResponse extends RuntallyError {}

/** The run ended without an answer; thrown by `requireAnswer` only. */
export class RunFailed extends RuntallyError {
  readonly final: GraphFinal;

  constructor(final: GraphFinal) {
    super(`The run ${final.runId} failed: ${final.error}.`);
    this.final = final;
  }
}

/** What is wrong with one field of a request. */
export interface FieldError {
  field: string;
  message: string;
}

/** The content of a problem document and its headers. */
export interface ProblemDetails {
  status: number;
  code: string;
  title: string;
  detail: string;
  errors: FieldError[];
  requestId: string | null;
  runId: string | null;
  retryAfterMs: number | null;
}

/**
 * The server refused a request. `code` is for programs, `detail` for people. A response that is not of the server itself,
 * such as a proxy's page, has an empty `code`.
 */
export class ApiError extends RuntallyError {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly errors: FieldError[];
  readonly requestId: string | null;
  readonly runId: string | null;
  readonly retryAfterMs: number | null;

  constructor(problem: ProblemDetails) {
    super(problem.detail);
    this.status = problem.status;
    this.code = problem.code;
    this.title = problem.title;
    this.detail = problem.detail;
    this.errors = problem.errors;
    this.requestId = problem.requestId;
    this.runId = problem.runId;
    this.retryAfterMs = problem.retryAfterMs;
  }
}

/** The request is not valid (400, 413, 415, 422); `errors` lists its fields. */
export class InvalidRequest extends ApiError {}
/** The API key is missing, unknown or revoked (401). */
export class Unauthenticated extends ApiError {}
/** The account has no credit left (402); `code` is `budget_reached` if a budget is used up. */
export class InsufficientCredits extends ApiError {}
/** The API key lacks a scope (403). */
export class Forbidden extends ApiError {}
/** There is no such run, graph, conversation … (404). */
export class NotFound extends ApiError {}
/** The request conflicts with the current state (409). */
export class Conflict extends ApiError {}
/** The contents were deleted (410). */
export class Gone extends ApiError {}
/** Too many requests (429). */
export class RateLimited extends ApiError {}
/** The server or something behind it is unavailable (5xx). */
export class ServerUnavailable extends ApiError {}

const BY_STATUS: Record<number, typeof ApiError> = {
  400: InvalidRequest,
  401: Unauthenticated,
  402: InsufficientCredits,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  410: Gone,
  413: InvalidRequest,
  415: InvalidRequest,
  422: InvalidRequest,
  429: RateLimited,
};

/** The error of a response without success. */
export async function errorOf(response: Response): Promise<RuntallyError> {
  if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
    return new InvalidResponse(
      `${response.url} redirects (status ${response.status}); redirects are not followed, because they would get the ` +
        "API key. Use the URL of the server itself.",
    );
  }
  const problem = problemOf(await response.text());
  const status = response.status;
  const kind = status >= 500 ? ServerUnavailable : (BY_STATUS[status] ?? ApiError);
  return new kind({
    status,
    code: textOf(problem["code"]),
    title: textOf(problem["title"]) || response.statusText,
    detail: textOf(problem["detail"]) || `The server responded with status ${status}.`,
    errors: fieldErrorsOf(problem["errors"]),
    requestId: response.headers.get("x-request-id"),
    runId: textOf(problem["runId"]) || null,
    retryAfterMs: retryAfterOf(response.headers.get("retry-after")),
  });
}

function problemOf(body: string): Record<string, unknown> {
  try {
    const document: unknown = JSON.parse(body);
    return isObject(document) ? document : {};
  } catch {
    // The page of a proxy.
    return {};
  }
}

/** Whether a JSON value is an object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function fieldErrorsOf(errors: unknown): FieldError[] {
  if (!Array.isArray(errors)) return [];
  return errors.filter(isObject).map((error) => ({ field: textOf(error["field"]), message: textOf(error["message"]) }));
}

function retryAfterOf(seconds: string | null): number | null {
  return seconds !== null && /^[0-9]{1,6}$/.test(seconds) ? Number(seconds) * 1000 : null;
}
