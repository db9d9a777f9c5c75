// The list of conversations.

/** @import { MenuActions } from "../conversations/menu.js" */
/** @import { Group, Listed, Sessions } from "../conversations/sessions.js" */

import { Menu, nameOf } from "../conversations/menu.js";
import { ShareDialog } from "../conversations/share_dialog.js";
import { html, useEffect, useRef, useState, withValue } from "../html.js";
import { locale, t } from "../languages.js";
import { linkTo } from "./hooks.js";
import { ConfirmDelete } from "./layout.js";

const DAY_MS = 86_400_000;
const MAX_TITLE = 120;

/**
 * @typedef {object} SidebarProps
 * @property {Sessions} sessions
 * @property {string} current
 * @property {(key: string | null) => void} open
 * @property {((session: Listed, title: string) => void) | null} rename null if it is not allowed, as `remove`
 * @property {((session: Listed) => void) | null} remove
 * @property {boolean} shares
 * @property {boolean} shown
 * @property {() => void} close
 */

/** @typedef {{kind: "menu" | "rename" | "share" | "remove", session: Listed, anchor: HTMLElement | null}} Doing */

/**
 * `open(key)` shows a conversation, null a new one. On narrow screens it covers the page while `shown`.
 * @param {SidebarProps} props
 */
export function Sidebar({ sessions, current, open, rename, remove, shares, shown, close }) {
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  const [doing, setDoing] = useState(/** @type {Doing | null} */ (null));
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
    if (shown && doing === null && event.key === "Escape") close();
  };
  const begin = (/** @type {Doing["kind"]} */ kind) => {
    return (/** @type {Listed} */ session, /** @type {HTMLElement | null} */ anchor = null) =>
      setDoing({ kind, session, anchor });
  };
  /** @type {MenuActions} */
  const actions = {
    rename: rename && begin("rename"),
    change:
      rename &&
      (({ stateKey }, changes) => {
        // Its place in the list changes.
        nav.current?.focus();
        sessions.change(stateKey, changes);
      }),
    share: shares ? begin("share") : null,
    remove: remove && begin("remove"),
  };
  // Browsers tell later that a menu or a dialog has closed: the next may be open by then, even of the same conversation.
  const end = () => setDoing((now) => (now === doing ? null : now));
  const named = (/** @type {Listed} */ session, /** @type {string} */ title) => {
    setDoing((now) => (now?.kind === "rename" ? null : now));
    if (title.trim() && title !== nameOf(session)) rename?.(session, title);
  };
  const row = (/** @type {Listed} */ session) =>
    doing?.kind === "rename" && doing.session.stateKey === session.stateKey
      ? html`<${TitleField} session=${session} named=${named} />`
      : html`<${Entry} session=${session} current=${current} follow=${follow} openMenu=${begin("menu")} />`;
  return html`
    <nav class="sidebar" id="conversations" ref=${nav} aria-label=${t("conversations")}
      tabindex="-1" data-shown=${shown} onKeyDown=${onKeyDown}>
      <div class="sidebar-head">
        <a class="button" href="./" onClick=${follow(null)}>${t("new-conversation")}</a>
        <button type="button" class="button button-plain sidebar-close" onClick=${close}>${t("close")}</button>
      </div>
      <${Finder} sessions=${sessions} />
      <${Lists} sessions=${sessions} row=${row} />
      ${
        sessions.more &&
        html`<button type="button" class="button button-small" onClick=${sessions.more}>${t("show-earlier")}</button>`
      }
    </nav>
    ${
      doing?.kind === "menu" &&
      doing.anchor !== null &&
      html`
      <${Menu}
        key=${doing}
        session=${doing.session}
        anchor=${doing.anchor}
        actions=${actions}
        close=${end}
      />
    `
    }
    ${doing?.kind === "share" && html`<${ShareDialog} session=${doing.session} close=${end} />`}
    ${
      doing?.kind === "remove" &&
      html`
      <${ConfirmDelete}
        yes=${() => {
          end();
          nav.current?.focus();
          remove?.(doing.session);
        }}
        no=${end}
      />
    `
    }
  `;
}

/** @param {{sessions: Sessions}} props */
function Finder({ sessions }) {
  const { words, archived } = sessions.view;
  return html`
    <div class="sidebar-finder" role="search">
      <input
        type="search"
        aria-label=${t("search-in-conversations")}
        placeholder=${t("search")}
        maxlength="200"
        value=${words}
        onInput=${withValue((value) => sessions.look({ words: value, archived }))}
      />
      <button
        type="button"
        class="button button-plain button-small"
        aria-pressed=${archived ? "true" : "false"}
        onClick=${() => sessions.look({ words: "", archived: !archived })}
      >
        ${t("archive-shown")}
      </button>
    </div>
  `;
}

/** @param {{sessions: Sessions, row: (session: Listed) => unknown}} props */
function Lists({ sessions, row }) {
  const { groups, loading, view } = sessions;
  const isEmpty = groups.every(({ items }) => items.length === 0);
  const nothing = view.words ? "nothing-found" : view.archived ? "nothing-archived" : "nothing-listed";
  return html`
    <p class="hint sidebar-empty" role="status">${isEmpty && t(loading ? "loading" : nothing)}</p>
    ${groups.map(
      ({ title, items }) =>
        items.length > 0 &&
        html`
          <section key=${title} aria-label=${title}>
            <h2 class="sidebar-group">${title}</h2>
            <ul>
              ${items.map((session) => html`<li key=${session.stateKey}>${row(session)}</li>`)}
            </ul>
          </section>
        `,
    )}
  `;
}

/**
 * @param {object} props
 * @param {Listed} props.session
 * @param {string} props.current
 * @param {(key: string) => (event: MouseEvent) => void} props.follow
 * @param {(session: Listed, anchor: HTMLElement) => void} props.openMenu
 */
function Entry({ session, current, follow, openMenu }) {
  const { stateKey } = session;
  const isCurrent = stateKey === current;
  return html`
    <div class="sidebar-entry" data-current=${isCurrent}>
      <a href=${linkTo(stateKey)} aria-current=${isCurrent ? "true" : undefined} onClick=${follow(stateKey)}>
        <span class="sidebar-title" dir="auto">${nameOf(session)}</span>
        <span class="sidebar-when">${session.forkedFrom && `${t("fork-mark")} · `}${when(session.updatedAt)}</span>
      </a>
      <button
        type="button"
        class="button button-plain sidebar-more"
        aria-label=${t("actions-for", { title: nameOf(session) })}
        onClick=${(/** @type {{currentTarget: HTMLElement}} */ event) => openMenu(session, event.currentTarget)}
      >
        <span aria-hidden="true">⋯</span>
      </button>
    </div>
  `;
}

/**
 * Enter and leaving the field rename, Escape does not.
 * @param {{session: Listed, named: (session: Listed, title: string) => void}} props
 */
function TitleField({ session, named }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => field.current?.select(), []);
  const onKeyDown = (/** @type {KeyboardEvent & {currentTarget: HTMLInputElement}} */ event) => {
    const isKept = event.key === "Escape";
    if (!isKept && (event.key !== "Enter" || event.isComposing)) return;
    event.stopPropagation();
    if (isKept) event.currentTarget.value = nameOf(session);
    /** @type {HTMLElement | null} */ (event.currentTarget.closest("nav"))?.focus();
  };
  return html`
    <input
      class="sidebar-name"
      ref=${field}
      aria-label=${t("conversation-title")}
      maxlength=${MAX_TITLE}
      value=${nameOf(session)}
      onKeyDown=${onKeyDown}
      onBlur=${withValue((value) => named(session, value))}
    />
  `;
}

/** @param {string} time */
function when(time) {
  const date = new Date(time);
  const age = Date.now() - date.getTime();
  if (age < DAY_MS && date.getDate() === new Date().getDate()) {
    return date.toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit" });
  }
  /** @type {Intl.DateTimeFormatOptions} */
  const year = age > 300 * DAY_MS ? { year: "numeric" } : {};
  return date.toLocaleDateString(locale, { day: "numeric", month: "short", ...year });
}
