// The page of a shared conversation: for anybody who has its link, whose token is after `#`.

import { ApiError, apiPath, getAs } from "./api.js";
import { Plain, Prose, Value } from "./chat/text.js";
import { toolTitle } from "./chat/messages.js";
import { html, render, useEffect, useState } from "./html.js";

/** @typedef {Schemas["SharedConversation"]} Shared */
/** @typedef {Shared["messages"][number]} Message */

const WEB = /^https?:\/\//i;
const ENDED = "This link shows nothing: it has expired or was revoked, or it is not complete.";

function SharedPage() {
  const [shared, setShared] = useState(/** @type {Shared | null} */ (null));
  const [problem, setProblem] = useState("");
  const more = async (/** @type {Shared | null} */ before) => {
    try {
      const page = await pageAfter(before?.nextCursor ?? null);
      setProblem("");
      setShared({ ...page, messages: [...(before?.messages ?? []), ...page.messages] });
      document.title = `${page.title ?? "Shared conversation"} – Runtally`;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.code === "share_ended" ? ENDED : error.message);
    }
  };
  useEffect(() => void more(null), []);
  if (shared === null) {
    return html`
      <main class="page" id="main">
        ${
          problem
            ? html`<div class="card"><h1>Nothing to show</h1><p role="alert">${problem}</p></div>`
            : html`<p class="waiting" role="status">Loading…</p>`
        }
      </main>
    `;
  }
  return html`
    <header class="top">
      <span class="brand"><img src="./assets/icon.svg" alt="" width="22" height="22" />Runtally</span>
    </header>
    <main class="shared column" id="main">
      <header>
        <h1>${shared.title ?? "Shared conversation"}</h1>
        <p class="hint">As it was on ${day(shared.sharedAt)}. The link works until ${day(shared.expiresAt)}.</p>
      </header>
      ${shared.messages.map((message, index) => html`<${SharedMessage} key=${index} message=${message} />`)}
      ${problem && html`<p class="notice notice-bad" role="alert">${problem}</p>`}
      ${
        shared.nextCursor !== null &&
        html`<button type="button" class="button" onClick=${() => more(shared)}>Show more</button>`
      }
    </main>
  `;
}

/** @param {{message: Message}} props */
function SharedMessage({ message }) {
  switch (message.type) {
    case "user_message":
      return html`
        <section class="turn">
          <h2 class="visually-hidden">Question</h2>
          <div class="user-message">
            <${Plain} text=${message.content ?? ""} />
            ${message.attachments?.map(({ title, mediaType, type }) => html`<p class="hint">${title ?? mediaType ?? type}</p>`)}
          </div>
        </section>
      `;
    case "assistant_message":
      return html`
        <section class="answer">
          <h2 class="visually-hidden">Answer</h2>
          <${Prose} text=${message.content ?? ""} />
          ${message.citations && html`<${Sources} citations=${message.citations} />`}
        </section>
      `;
    case "tool_call":
      return html`
        <details class="tool" data-state=${message.isError ? "failed" : "done"}>
          <summary>
            <span class="tool-mark" aria-hidden="true"></span>
            <span class="tool-name">${toolTitle(message.toolName ?? "")}</span>
          </summary>
          <div class="tool-body">
            <h3>Arguments</h3>
            <${Value} value=${message.args} label="Arguments" />
            <h3>Result</h3>
            <${Value} value=${message.result ?? null} label="Result" />
          </div>
        </details>
      `;
    default:
      return html`<p class="note">Earlier messages were summarized for the model.</p>`;
  }
}

/** @param {{citations: Schemas["CitationResponse"][]}} props */
function Sources({ citations }) {
  const pages = new Map(citations.filter(({ url }) => WEB.test(url)).map(({ url, title }) => [url, title || url]));
  return html`
    <section class="sources">
      <h3>Sources</h3>
      <ul>
        ${[...pages].map(
          ([url, title]) => html`
            <li key=${url}><a href=${url} target="_blank" rel="noopener noreferrer nofollow">${title}</a></li>
          `,
        )}
      </ul>
    </section>
  `;
}

/** @param {string | null} cursor */
function pageAfter(cursor) {
  return getAs(apiPath("/v1/shared", { cursor: cursor ?? undefined }), `Bearer ${location.hash.slice(1)}`);
}

/** @param {string} time */
function day(time) {
  return new Date(time).toLocaleDateString([], { day: "numeric", month: "long", year: "numeric" });
}

// Another link that is opened in this tab changes only what is after `#`.
addEventListener("hashchange", () => location.reload());
render(html`<${SharedPage} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
