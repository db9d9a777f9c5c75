// What the frame and the page around it send each other. The server lets only pages of the origin in its URL frame it.

import { ApiError, sendTokens } from "../api.js";
import { t } from "../languages.js";

const ORIGIN = new URLSearchParams(location.search).get("origin") ?? "";
/** Not final: a run is followed on once the page gives a token again. */
const NO_TOKEN = { status: 0, code: "no_token", detail: t("request-failed-no_token") };

/** How long a page may take to give a token. */
const PATIENCE_MS = 30_000;

/**
 * What the page sets; a foreign page's data, which may be anything.
 * @typedef {{title?: unknown, lang?: unknown, scheme?: unknown, theme?: unknown}} Settings
 */

/** @type {string | null} */
let token = null;
/** What waits for the page's answer. @type {{promise: Promise<string>, settle: (given: unknown) => void} | null} */
let asked = null;

/**
 * Tell the page that the frame is ready, and follow what it says. Tokens stay in the memory of this module.
 * @param {{onSettings: (settings: Settings) => void, onOpened: () => void}} listeners
 */
export function meetSite({ onSettings, onOpened }) {
  const receive = (/** @type {MessageEvent} */ { source, origin, data }) => {
    if (source !== parent || origin !== ORIGIN) return;
    if (data?.runtally === "settings") onSettings(data);
    if (data?.runtally === "opened") onOpened();
    if (data?.runtally === "token") asked?.settle(data.token);
  };
  addEventListener("message", receive);
  sendTokens(async (refused) => {
    const known = token === refused ? null : token;
    token = known ?? (await ask());
    return token;
  });
  tell("ready");
  return () => removeEventListener("message", receive);
}

/**
 * Send the page a message.
 * @param {"ready" | "token" | "close" | "message" | "error"} type
 * @param {Record<string, unknown>} [detail]
 */
export function tell(type, detail) {
  parent.postMessage({ runtally: type, detail }, ORIGIN);
}

/** The page's token; all requests wait for one answer. */
function ask() {
  if (asked === null) {
    let settle = (/** @type {unknown} */ _) => {};
    const answer = new Promise((resolve) => (settle = resolve));
    const timer = setTimeout(() => settle(null), PATIENCE_MS);
    const promise = answer.then((given) => {
      clearTimeout(timer);
      asked = null;
      if (typeof given !== "string" || !given) throw new ApiError(NO_TOKEN);
      return given;
    });
    asked = { promise, settle };
    tell("token");
  }
  return asked.promise;
}
