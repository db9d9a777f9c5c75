// The page of a shared conversation: for anybody who has its link, whose token is after `#`.

import { ApiError, apiPath, getAs } from "./api.js";
import { Plain, Prose, Value } from "./chat/text.js";
import { toolTitle } from "./chat/messages.js";
import { html, render, useEffect, useState } from "./html.js";
import { locale, t } from "./languages.js";
import { LanguageChoice } from "./parts/language_choice.js";

/** @typedef {Schemas["SharedConversation"]} Shared */
/** @typedef {Shared["messages"][number]} Message */

const WEB = /^https?:\/\//i;

function SharedPage() {
  const [shared, setShared] = useState(/** @type {Shared | null} */ (null));
  const [problem, setProblem] = useState("");
  const more = async (/** @type {Shared | null} */ before) => {
    try {
      const page = await pageAfter(before?.nextCursor ?? null);
      setProblem("");
      setShared({ ...page, messages: [...(before?.messages ?? []), ...page.messages] });
      document.title = t("page-title", { title: page.title ?? t("shared-title") });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.code === "share_ended" ? t("shared-ended") : error.message);
    }
  };
  useEffect(() => void more(null), []);
  if (shared === null) {
    return html`
      <main class="page" id="main">
        ${
          problem
            ? html`<div class="card"><h1>${t("shared-nothing")}</h1><p role="alert">${problem}</p></div>`
            : html`<p class="waiting" role="status">${t("loading")}</p>`
        }
      </main>
    `;
  }
  return html`
    <header class="top">
      <span class="brand"><img src="./assets/icon.svg" alt="" width="22" height="22" />Runtally</span>
      <${LanguageChoice} />
    </header>
    <main class="shared column" id="main">
      <header>
        <h1><bdi>${shared.title ?? t("shared-title")}</bdi></h1>
        <p class="hint">${t("shared-dates", { shared: day(shared.sharedAt), expires: day(shared.expiresAt) })}</p>
      </header>
      ${shared.messages.map((message, index) => html`<${SharedMessage} key=${index} message=${message} />`)}
      ${problem && html`<p class="notice notice-bad" role="alert">${problem}</p>`}
      ${
        shared.nextCursor !== null &&
        html`<button type="button" class="button" onClick=${() => more(shared)}>${t("show-more")}</button>`
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
          <h2 class="visually-hidden">${t("question")}</h2>
          <div class="user-message">
            <${Plain} text=${message.content ?? ""} />
            ${message.attachments?.map(({ title, mediaType, type }) => html`<p class="hint">${title ?? mediaType ?? type}</p>`)}
          </div>
        </section>
      `;
    case "assistant_message":
      return html`
        <section class="answer">
          <h2 class="visually-hidden">${t("answer")}</h2>
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
            <h3>${t("arguments")}</h3>
            <${Value} value=${message.args} label=${t("arguments")} />
            <h3>${t("result")}</h3>
            <${Value} value=${message.result ?? null} label=${t("result")} />
          </div>
        </details>
      `;
    default:
      return html`<p class="note">${t("note-compacted")}</p>`;
  }
}

/** @param {{citations: Schemas["CitationResponse"][]}} props */
function Sources({ citations }) {
  const pages = new Map(citations.filter(({ url }) => WEB.test(url)).map(({ url, title }) => [url, title || url]));
  return html`
    <section class="sources">
      <h3>${t("sources")}</h3>
      <ul>
        ${[...pages].map(
          ([url, title]) => html`
            <li key=${url}><a href=${url} target="_blank" rel="noopener noreferrer nofollow"><bdi>${title}</bdi></a></li>
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
  return new Date(time).toLocaleDateString(locale, { day: "numeric", month: "long", year: "numeric" });
}

// Another link that is opened in this tab changes only what is after `#`.
addEventListener("hashchange", () => location.reload());
render(html`<${SharedPage} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
