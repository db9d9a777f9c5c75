// HTTP client of the API: uses the session cookie and URLs relative to the page.

import { t } from "./languages.js";

/** An error response of the server, or no response (`code` "unreachable"). */
export class ApiError extends Error {
  /** @param {{status: number, code: string, detail: string, errors?: FieldProblem[] | null}} problem */
  constructor(problem) {
    super(problem.detail);
    this.name = "ApiError";
    this.status = problem.status;
    this.code = problem.code;
    this.errors = problem.errors ?? [];
  }
}

const UNREACHABLE = { status: 0, code: "unreachable", detail: t("unreachable") };
const UNREADABLE = { code: "unreadable", detail: t("unreadable") };

let onUnauthenticated = () => {};
/** @type {((refused?: string) => Promise<string>) | null} */
let giveToken = null;

/**
 * Set the function that is called when the session has ended.
 * @param {() => void} listener
 */
export function onSignedOut(listener) {
  onUnauthenticated = listener;
}

/**
 * Send tokens instead of the session cookie. The source gives one, and another one than that which was refused.
 * @param {(refused?: string) => Promise<string>} source
 */
export function sendTokens(source) {
  giveToken = source;
}

/**
 * A path of the OpenAPI document with its parameters; the others that have a value become the query.
 * @template {ApiPath} Path
 * @param {Path} path
 * @param {ParametersOf<Path>} [parameters]
 */
export function apiPath(path, parameters) {
  const query = new URLSearchParams();
  let filled = path.slice(1);
  for (const [name, value] of Object.entries(parameters ?? {})) {
    if (value === "" || value === undefined || value === null) continue;
    if (path.includes(`{${name}}`)) filled = filled.replace(`{${name}}`, () => encodeURIComponent(String(value)));
    else query.set(name, String(value));
  }
  return /** @type {PathOf<Path>} */ (query.size > 0 ? `${filled}?${query}` : filled);
}

/**
 * The URL of a path below the page's base.
 * @param {string} path
 */
export function apiUrl(path) {
  return new URL(path, document.baseURI).href;
}

/**
 * @template {ApiPath} Path
 * @param {PathOf<Path>} path
 * @returns {Promise<ResponseOf<Path, "get">>}
 */
export const get = (path) => call("GET", path);

/**
 * The same with a credential of its own.
 * @template {ApiPath} Path
 * @param {PathOf<Path>} path
 * @param {string} authorization
 * @returns {Promise<ResponseOf<Path, "get">>}
 */
export const getAs = (path, authorization) => call("GET", path, undefined, { Authorization: authorization });

/**
 * @template {ApiPath} Path
 * @param {PathOf<Path>} path
 * @param {BodyOf<Path, "post">} body
 * @param {Record<string, string>} [headers]
 * @returns {Promise<ResponseOf<Path, "post">>}
 */
export const post = (path, body, headers) => call("POST", path, body, headers);

/**
 * @template {ApiPath} Path
 * @param {PathOf<Path>} path
 * @param {BodyOf<Path, "put">} body
 * @returns {Promise<ResponseOf<Path, "put">>}
 */
export const put = (path, body) => call("PUT", path, body);

/**
 * @template {ApiPath} Path
 * @param {PathOf<Path>} path
 * @param {BodyOf<Path, "patch">} body
 * @returns {Promise<ResponseOf<Path, "patch">>}
 */
export const patch = (path, body) => call("PATCH", path, body);

/**
 * @template {ApiPath} Path
 * @param {PathOf<Path>} path
 * @returns {Promise<ResponseOf<Path, "delete">>}
 */
export const remove = (path) => call("DELETE", path);

/**
 * The bytes of a response, until they are aborted; null if it has none.
 * @template {ApiPath} Path
 * @param {PathOf<Path>} path
 * @param {AbortSignal} signal
 */
export async function getStream(path, signal) {
  const response = await answered("GET", path, undefined, {}, signal);
  // Chromium makes an empty stream of no content.
  return response.status === 204 ? null : response.body;
}

/**
 * The content of a file.
 * @template {ApiPath} Path
 * @param {PathOf<Path>} path
 */
export const getFile = async (path) => (await answered("GET", path)).blob();

/**
 * The JSON of the response, null without a body; throws `ApiError` unless the request succeeded.
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {Record<string, string>} [headers]
 */
async function call(method, path, body, headers) {
  const response = await answered(method, path, body, headers);
  return response.status === 204 ? null : response.json();
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {Record<string, string>} [headers]
 * @param {AbortSignal} [signal]
 */
async function answered(method, path, body, headers, signal) {
  /** @type {Record<string, string>} */
  const json = body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await authorized(apiUrl(path), {
    method,
    headers: { ...json, ...headers },
    body: JSON.stringify(body),
    signal,
  });
  if (response.ok) return response;
  const problem = await response.json().catch(() => UNREADABLE);
  if (response.status === 401 && path !== "v1/browser-session") onUnauthenticated();
  throw new ApiError({ ...problem, status: response.status });
}

/** @param {string} url @param {RequestInit} request */
async function authorized(url, request) {
  if (giveToken === null) return reach(url, request);
  const send = (/** @type {string} */ token) =>
    reach(url, { ...request, credentials: "omit", headers: { ...request.headers, Authorization: `Bearer ${token}` } });
  const token = await giveToken();
  const response = await send(token);
  return response.status === 401 ? send(await giveToken(token)) : response;
}

/** @param {string} url @param {RequestInit} request */
async function reach(url, request) {
  try {
    return await fetch(url, request);
  } catch {
    throw new ApiError(UNREACHABLE);
  }
}
