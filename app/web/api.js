// HTTP client of the API: uses the session cookie and URLs relative to the page.

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

const UNREACHABLE = { status: 0, code: "unreachable", detail: "The server cannot be reached." };
const UNREADABLE = { code: "unreadable", detail: "The server’s response could not be read." };

let onUnauthenticated = () => {};

/**
 * Set the function that is called when the session has ended.
 * @param {() => void} listener
 */
export function onSignedOut(listener) {
  onUnauthenticated = listener;
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

/** @param {string} method @param {string} path @param {unknown} [body] @param {Record<string, string>} [headers] */
async function answered(method, path, body, headers) {
  const response = await request(method, path, body, headers);
  if (response.ok) return response;
  const problem = await response.json().catch(() => UNREADABLE);
  if (response.status === 401 && path !== "v1/browser-session") onUnauthenticated();
  throw new ApiError({ ...problem, status: response.status });
}

/** @param {string} method @param {string} path @param {unknown} body @param {Record<string, string>} [headers] */
async function request(method, path, body, headers) {
  const json = { headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) };
  try {
    return await fetch(apiUrl(path), { method, ...(body === undefined ? { headers } : json) });
  } catch {
    throw new ApiError(UNREACHABLE);
  }
}
