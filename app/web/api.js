// The API, as the pages call it: with the session cookie, relative to where the page is served.

/** Something the server refused, or an answer that never came (`code` "unreachable"). */
export class ApiError extends Error {
  constructor(problem) {
    super(problem.detail);
    this.name = "ApiError";
    this.status = problem.status;
    this.code = problem.code;
    this.errors = problem.errors ?? [];
  }
}

const UNREACHABLE = { status: 0, code: "unreachable", detail: "The server cannot be reached." };
const UNREADABLE = { code: "unreadable", detail: "The server’s answer could not be read." };

let signedOut = () => {};

/** Call this when the server no longer knows who we are. */
export function onSignedOut(listener) {
  signedOut = listener;
}

/** Where something of the API is. */
export function urlOf(path) {
  return new URL(path, document.baseURI).href;
}

/** The JSON of the answer, null where it has none; raises `ApiError` for whatever is not a success. */
export async function call(method, path, body) {
  const response = await answer(method, path, body);
  if (response.ok) return response.status === 204 ? null : response.json();
  const problem = await response.json().catch(() => UNREADABLE);
  if (response.status === 401 && path !== "v1/browser-session") signedOut();
  throw new ApiError({ ...problem, status: response.status });
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const remove = (path) => call("DELETE", path);

async function answer(method, path, body) {
  const json = { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  try {
    return await fetch(urlOf(path), { method, ...(body === undefined ? {} : json) });
  } catch {
    throw new ApiError(UNREACHABLE);
  }
}
