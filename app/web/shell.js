// The shell of all pages: session, sign-in form, navigation.

/** @import { Html } from "./html.js" */

import { ApiError, apiPath, get, onSignedOut, post, remove } from "./api.js";
import { html, render, useEffect, useRef, useState } from "./html.js";

const PAGES = [
  { name: "chat", label: "Chat", href: "./" },
  { name: "approvals", label: "Approvals", href: "./approvals" },
  { name: "billing", label: "Billing", href: "./billing" },
];
const BROWSER_SESSION = apiPath("/v1/browser-session");

/** @typedef {Schemas["BrowserSessionResponse"]} SessionResponse */
/** @typedef {SessionResponse & {may: (scope: string) => boolean}} Session */
/** @typedef {{name: "chat" | "approvals" | "billing", Page: (props: {who: Session}) => Html}} PageProps */

/** The session before it is known whether there is one, which null means. */
const UNKNOWN = undefined;

/**
 * Show a page.
 * @param {PageProps} page
 */
export function startPage({ name, Page }) {
  render(html`<${Shell} name=${name} Page=${Page} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
}

/** @param {PageProps} props */
function Shell({ name, Page }) {
  const [who, setWho] = useState(/** @type {Session | null | undefined} */ (UNKNOWN));
  const [notice, setNotice] = useState("");
  const [unreachable, setUnreachable] = useState(false);

  const loadSession = async () => {
    setUnreachable(false);
    try {
      setWho(known(await get(BROWSER_SESSION)));
    } catch {
      setUnreachable(true);
    }
  };
  const signOut = async () => {
    try {
      await remove(BROWSER_SESSION);
      setNotice("You are signed out.");
      setWho(null);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setNotice(error.message);
    }
  };
  useEffect(() => {
    onSignedOut(() => {
      setNotice("Your session has ended. Sign in again to continue.");
      setWho(null);
    });
    loadSession();
  }, []);

  if (unreachable) return html`<${Unreachable} retry=${loadSession} />`;
  if (who === UNKNOWN) return html`<p class="waiting" role="status">Loading…</p>`;
  const onSignIn = (/** @type {SessionResponse} */ found) => {
    setNotice("");
    setWho(known(found));
  };
  if (who === null) return html`<${SignIn} notice=${notice} onSignIn=${onSignIn} />`;
  return html`
    <a class="skip" href="#main">Skip to content</a>
    <${TopBar} name=${name} who=${who} signOut=${signOut} />
    ${notice && html`<p class="notice notice-bad" role="alert">${notice}</p>`}
    <${Page} who=${who} />
  `;
}

/**
 * @param {SessionResponse | null} session
 * @returns {Session | null}
 */
function known(session) {
  return session && { ...session, may: (scope) => session.scopes.includes(scope) };
}

/** @param {{name: string, who: Session, signOut: () => void}} props */
function TopBar({ name, who, signOut }) {
  return html`
    <header class="top">
      <span class="brand"><img src="./assets/icon.svg" alt="" width="22" height="22" />Runtally</span>
      <nav aria-label="Pages">
        ${PAGES.map(
          (page) => html`
            <a href=${page.href} aria-current=${page.name === name ? "page" : undefined}>${page.label}</a>
          `,
        )}
      </nav>
      <details class="who" onKeyDown=${closeOnEscape}>
        <summary>
          <span class="who-account">${who.account}</span>
        </summary>
        <div class="who-card">
          <dl>
            <dt>Account</dt>
            <dd>${who.account}</dd>
            <dt>API key</dt>
            <dd>${who.keyName ?? "without a name"} <code>${who.keyPrefix}…</code></dd>
            <dt>May</dt>
            <dd>${who.scopes.map((scope) => html`<code class="scope">${scope}</code> `)}</dd>
            <dt>Signed in until</dt>
            <dd>${new Date(who.expiresAt).toLocaleString()}</dd>
          </dl>
          <button type="button" class="button" onClick=${signOut}>Sign out</button>
        </div>
      </details>
    </header>
  `;
}

/** @param {KeyboardEvent & {currentTarget: HTMLDetailsElement}} event */
function closeOnEscape(event) {
  if (event.key !== "Escape") return;
  event.currentTarget.open = false;
  event.currentTarget.querySelector("summary")?.focus();
}

/** @param {{notice: string, onSignIn: (session: SessionResponse) => void}} props */
function SignIn({ notice, onSignIn }) {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => field.current?.focus(), []);

  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const apiKey = field.current?.value.trim();
    if (!apiKey) return showProblem("Enter an API key.");
    setBusy(true);
    try {
      onSignIn(await post(BROWSER_SESSION, { apiKey }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setBusy(false);
      showProblem(error.status === 401 ? "This API key is not valid, or it was revoked." : error.message);
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
        <h1 id="sign-in-title">Sign in to Runtally</h1>
        ${notice && html`<p class="notice" role="status">${notice}</p>`}
        <label class="field">
          <span>API key</span>
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
        <button class="button button-primary" disabled=${busy}>${busy ? "Signing in…" : "Sign in"}</button>
        <p class="hint" id="sign-in-hint">
          The key is exchanged for a session that scripts cannot read. It ends after seven days, or when you sign out.
        </p>
      </form>
    </main>
  `;
}

/** @param {{retry: () => void}} props */
function Unreachable({ retry }) {
  return html`
    <main class="sign-in" id="main">
      <div class="card">
        <h1>The server cannot be reached</h1>
        <p>It may be restarting, or your connection may be down.</p>
        <button type="button" class="button button-primary" onClick=${retry}>Try again</button>
      </div>
    </main>
  `;
}
