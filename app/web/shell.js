// The shell of all pages: session, sign-in form, navigation.

/** @import { Html } from "./html.js" */
/** @import { SessionResponse } from "./session.js" */

import { ApiError, apiPath, apiUrl, get, getStream, onSignedOut, post, remove } from "./api.js";
import { html, render, useEffect, useRef, useState } from "./html.js";
import { locale, t, tIfKnown } from "./languages.js";
import { closeOnEscape } from "./parts/escape.js";
import { LanguageChoice } from "./parts/language_choice.js";
import { NoticeButton } from "./parts/notices.js";
import { session } from "./session.js";

/** Reached by a link alone. */
const DEVICE = "device";
const PAGES = /** @type {const} */ ([
  { name: "chat", href: "./", needs: "runs:read" },
  { name: "approvals", href: "./approvals", needs: "runs:read" },
  { name: "billing", href: "./billing", needs: "receipts:read" },
  { name: "console", href: "./console", needs: "receipts:read" },
  { name: DEVICE, href: "./device", needs: "external:write" },
]);
/** The pages that tell of something while they are hidden. */
const NOTICES = ["chat", "approvals"];
/** Scopes that `admin` includes. */
const OF_ADMIN = ["metrics:read", "keys:write", "budgets:write"];
const BROWSER_SESSION = apiPath("/v1/browser-session");
/** Whom the browser's tabs know to be signed in. */
const SIGNED_IN = "runtally.signed-in";

/** @typedef {SessionResponse & {may: (scope: string) => boolean}} Session */
/** @typedef {{name: "chat" | "approvals" | "billing" | "console" | "device", Page: (props: {who: Session}) => Html}} PageProps */

/** The session before it is known whether there is one, which null means. */
const UNKNOWN = undefined;

/**
 * Show a page.
 * @param {PageProps} page
 */
export function startPage({ name, Page }) {
  document.title = t("page-title", { title: t(`page-${name}`) });
  render(html`<${Shell} name=${name} Page=${Page} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
}

/** @param {PageProps} props */
function Shell({ name, Page }) {
  const [who, setWho] = useState(/** @type {Session | null | undefined} */ (UNKNOWN));
  const [notice, setNotice] = useState(problemOfSignIn);
  const [unreachable, setUnreachable] = useState(false);

  const load = async (/** @type {Promise<SessionResponse | null>} */ requested) => {
    setUnreachable(false);
    try {
      setWho(known(await requested));
    } catch {
      setUnreachable(true);
    }
  };
  const signOut = async () => {
    try {
      const left = await remove(BROWSER_SESSION);
      // Another person may sign in here.
      sessionStorage.clear();
      localStorage.removeItem(SIGNED_IN);
      if (left) return location.assign(left.continueAt);
      setNotice(t("signed-out"));
      setWho(null);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setNotice(error.message);
    }
  };
  useEffect(() => {
    onSignedOut(() => {
      setNotice(t("session-ended"));
      setWho(null);
    });
    load(session);
    document.addEventListener("click", (event) => download(event, setNotice));
    // What this tab shows is another one's, and what it sends would be of the one who has signed in elsewhere.
    addEventListener("storage", ({ key }) => {
      if (key !== SIGNED_IN) return;
      sessionStorage.clear();
      location.reload();
    });
  }, []);

  useEffect(() => {
    if (who) localStorage.setItem(SIGNED_IN, `${who.keyPrefix} ${who.person?.endUser}`);
  }, [who]);

  if (unreachable) return html`<${Unreachable} retry=${() => load(get(BROWSER_SESSION))} />`;
  // The page's file has this bar as well: it is what is painted first.
  if (who === UNKNOWN) {
    return html`
      <header class="top"><${Brand} /></header>
      <p class="waiting" role="status">${t("loading")}</p>
    `;
  }
  const onSignIn = (/** @type {SessionResponse} */ found) => {
    setNotice("");
    setWho(known(found));
  };
  if (who === null) return html`<${SignIn} notice=${notice} onSignIn=${onSignIn} />`;
  return html`
    <a class="skip" href="#main">${t("skip")}</a>
    <${TopBar} name=${name} who=${who} signOut=${signOut} />
    ${notice && html`<p class="notice notice-bad" role="alert" ref=${bringIntoView}>${notice}</p>`}
    ${pagesOf(who).some((page) => page.name === name) ? html`<${Page} who=${who} />` : html`<${NotOpen} />`}
  `;
}

/** @param {Element | null} element */
const bringIntoView = (element) => element?.scrollIntoView({ block: "nearest" });

/**
 * Follow a link to a download once the server does not refuse it: the browser would not show why.
 * @param {MouseEvent} event
 * @param {(problem: string) => void} tell
 */
async function download(event, tell) {
  const link = event.target instanceof Element && event.target.closest("a[download]");
  if (!event.isTrusted || !(link instanceof HTMLAnchorElement)) return;
  event.preventDefault();
  const checking = new AbortController();
  try {
    await getStream(/** @type {PathOf<"/v1/receipts">} */ (link.href), checking.signal);
    checking.abort();
    tell("");
    link.click();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    tell(error.message);
  }
}

/** What was wrong with a sign-in that has led back here; said once. */
function problemOfSignIn() {
  const url = new URL(location.href);
  const code = url.searchParams.get("problem");
  if (code === null) return "";
  url.searchParams.delete("problem");
  history.replaceState(null, "", url);
  return tIfKnown(`sign-in-failed-${code}`) ?? t("sign-in-failed");
}

/**
 * @param {SessionResponse | null} session
 * @returns {Session | null}
 */
function known(session) {
  if (session === null) return null;
  const has = (/** @type {string} */ scope) => session.scopes.includes(scope);
  return { ...session, may: (scope) => has(scope) || (OF_ADMIN.includes(scope) && has("admin")) };
}

/**
 * The pages that are open to a person; those with a key see them all, and what a key lacks.
 * @param {Session} who
 */
const pagesOf = (who) => PAGES.filter(({ needs }) => who.person === null || who.may(needs));

function NotOpen() {
  return html`
    <main id="main" class="page" tabindex="-1">
      <div class="card empty"><h1>${t("page-not-open")}</h1></div>
    </main>
  `;
}

function Brand() {
  return html`<span class="brand"><img src="./assets/icon.svg" alt="" width="22" height="22" />Runtally</span>`;
}

/** @param {{name: string, who: Session, signOut: () => void}} props */
function TopBar({ name, who, signOut }) {
  return html`
    <header class="top">
      <${Brand} />
      <nav aria-label=${t("pages")}>
        ${pagesOf(who)
          .filter((page) => page.name !== DEVICE)
          .map(
            (page) => html`
            <a href=${page.href} aria-current=${page.name === name ? "page" : undefined}>${t(`page-${page.name}`)}</a>
          `,
          )}
      </nav>
      <details class="who" onKeyDown=${closeOnEscape}>
        <summary>
          <span class="who-account">${who.person?.name ?? who.account}</span>
        </summary>
        <div class="who-card">
          <dl>
            <dt>${t("account")}</dt>
            <dd>${who.account}</dd>
            ${
              who.person
                ? html`
                    <dt>${t("person")}</dt>
                    <dd>${who.person.name} <code>${who.person.endUser}</code></dd>
                    <dt>${t("role")}</dt>
                    <dd>${who.person.role}</dd>
                  `
                : html`
                    <dt>${t("api-key")}</dt>
                    <dd>${who.keyName ?? t("without-name")} <code>${who.keyPrefix}…</code></dd>
                  `
            }
            <dt>${t("may")}</dt>
            <dd>${who.scopes.map((scope) => html`<code class="scope">${scope}</code> `)}</dd>
            <dt>${t("signed-in-until")}</dt>
            <dd>${new Date(who.expiresAt).toLocaleString(locale)}</dd>
          </dl>
          ${NOTICES.includes(name) && html`<${NoticeButton} />`}
          <${LanguageChoice} />
          <button type="button" class="button" onClick=${signOut}>${t("sign-out")}</button>
        </div>
      </details>
    </header>
  `;
}

/** @param {{notice: string, onSignIn: (session: SessionResponse) => void}} props */
function SignIn({ notice, onSignIn }) {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [issuer, setIssuer] = useState(/** @type {string | null} */ (null));
  useEffect(() => {
    field.current?.focus();
    // Without an answer there are keys, of which this page knows.
    get(apiPath("/v1/browser-session/methods")).then(
      (methods) => setIssuer(methods.oidcHost),
      () => {},
    );
  }, []);

  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const apiKey = field.current?.value.trim();
    if (!apiKey) return showProblem(t("enter-key"));
    setBusy(true);
    try {
      onSignIn(await post(BROWSER_SESSION, { apiKey }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setBusy(false);
      showProblem(error.status === 401 ? t("key-not-valid") : error.message);
    }
  };
  const showProblem = (/** @type {string} */ text) => {
    setProblem(text);
    field.current?.select();
    field.current?.focus();
  };

  return html`
    <main class="sign-in" id="main">
      <form class="card" onSubmit=${submit} aria-labelledby="sign-in-title" novalidate>
        <img src="./assets/icon.svg" alt="" width="40" height="40" />
        <h1 id="sign-in-title">${t("sign-in-to")}</h1>
        ${notice && html`<p class="notice" role="status">${notice}</p>`}
        ${issuer && html`<a class="button" href=${startAtIssuer()}>${t("sign-in-with", { issuer })}</a>`}
        <label class="field">
          <span>${t("api-key")}</span>
          <input
            ref=${field}
            type="password"
            name="api-key"
            autocomplete="current-password"
            autocapitalize="off"
            spellcheck=${false}
            placeholder="rt_…"
            aria-invalid=${problem ? "true" : undefined}
            aria-describedby=${problem ? "sign-in-problem" : "sign-in-hint"}
          />
        </label>
        ${problem && html`<p class="problem" id="sign-in-problem" role="alert">${problem}</p>`}
        <button class="button button-primary" disabled=${busy}>${t(busy ? "signing-in" : "sign-in")}</button>
        <p class="hint" id="sign-in-hint">${t("sign-in-hint")}</p>
        <${LanguageChoice} />
      </form>
    </main>
  `;
}

/** Where the sign-in at the issuer begins, which leads back to this page. */
function startAtIssuer() {
  const page = PAGES.find(({ href }) => new URL(href, document.baseURI).pathname === location.pathname);
  const query = new URLSearchParams(location.search);
  const next = `${page?.href.slice(1) ?? "/"}${query.size > 0 ? `?${query}` : ""}`;
  return apiUrl(`v1/browser-session/oidc?${new URLSearchParams({ next })}`);
}

/** @param {{retry: () => void}} props */
function Unreachable({ retry }) {
  return html`
    <main class="sign-in" id="main">
      <div class="card">
        <h1>${t("unreachable-title")}</h1>
        <p>${t("unreachable-hint")}</p>
        <button type="button" class="button button-primary" onClick=${retry}>${t("try-again")}</button>
      </div>
    </main>
  `;
}
