// The list of conversations.

import { html, useEffect, useRef } from "../html.js";
import { linkTo } from "./hooks.js";

const DAY_MS = 86_400_000;

/**
 * @typedef {object} SidebarProps
 * @property {Schemas["ConversationResponse"][]} sessions
 * @property {string} current
 * @property {(key: string | null) => void} open
 * @property {(() => void) | null} more
 * @property {boolean} shown
 * @property {() => void} close
 */

/**
 * `open(key)` shows a conversation, null a new one; `more()` lists further ones and is null if there are none.
 * On narrow screens it covers the page while `shown`.
 * @param {SidebarProps} props
 */
export function Sidebar({ sessions, current, open, more, shown, close }) {
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (shown) nav.current?.querySelector("a")?.focus();
  }, [shown]);
  const follow = (/** @type {string | null} */ key) => {
    return (/** @type {MouseEvent} */ event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      open(key);
    };
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (shown && event.key === "Escape") close();
  };
  return html`
    <nav
      class="sidebar"
      id="conversations"
      ref=${nav}
      aria-label="Conversations"
      data-shown=${shown}
      onKeyDown=${onKeyDown}
    >
      <div class="sidebar-head">
        <a class="button" href="./" onClick=${follow(null)}>New conversation</a>
        <button type="button" class="button button-plain sidebar-close" onClick=${close}>Close</button>
      </div>
      ${sessions.length === 0 && html`<p class="hint sidebar-empty">Your conversations will be listed here.</p>`}
      <ul>
        ${sessions.map(
          (session) => html`
            <li key=${session.stateKey}>
              <a
                href=${linkTo(session.stateKey)}
                aria-current=${session.stateKey === current ? "true" : undefined}
                onClick=${follow(session.stateKey)}
              >
                <span class="sidebar-title">${session.title ?? session.stateKey}</span>
                <span class="sidebar-when">${session.forkedFrom && "Fork · "}${when(session.updatedAt)}</span>
              </a>
            </li>
          `,
        )}
      </ul>
      ${more && html`<button type="button" class="button button-small" onClick=${more}>Show earlier ones</button>`}
    </nav>
  `;
}

/** @param {string} time */
function when(time) {
  const date = new Date(time);
  const age = Date.now() - date.getTime();
  if (age < DAY_MS && date.getDate() === new Date().getDate()) {
    return date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  }
  /** @type {Intl.DateTimeFormatOptions} */
  const year = age > 300 * DAY_MS ? { year: "numeric" } : {};
  return date.toLocaleDateString([], { day: "numeric", month: "short", ...year });
}
