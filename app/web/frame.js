// The chat in a frame of another site's page: one graph, and the conversation that its user had last.

/** @import { Graph } from "./chat/agents/describing.js" */
/** @import { Conversation, Turn } from "./chat/conversation.js" */
/** @import { Settings } from "./frame/site.js" */

import { ApiError, apiPath, get } from "./api.js";
import { actionsOn } from "./chat/actions.js";
import { Skeleton } from "./chat/agents/first_screen.js";
import { useAttachments } from "./chat/composer/attachments.js";
import { useProblem, useShown } from "./chat/hooks.js";
import { apiProblem } from "./chat/messages.js";
import { ConversationPane } from "./chat/pane.js";
import { meetSite, tell } from "./frame/site.js";
import { applyScheme, applyTheme } from "./frame/theme.js";
import { html, render, useEffect, useState } from "./html.js";
import { t } from "./languages.js";

const GRAPH_ID = new URLSearchParams(location.search).get("graph") ?? "";
/** An end user, who decides about no calls: a site could lay out the frame so that people click where they do not mean to. */
const USER = {
  may: (/** @type {string} */ scope) => ["runs:write", "runs:read"].includes(scope),
  person: { name: "", endUser: "", role: /** @type {const} */ ("user") },
};

/** @typedef {{graph: Graph, lastKey: string | null}} Found */

function Frame() {
  const [settings, setSettings] = useState(/** @type {Settings} */ ({}));
  const [found, setFound] = useState(/** @type {Found | null} */ (null));
  const [problem, setProblem] = useState("");
  const load = async () => {
    setProblem("");
    try {
      setFound(await find());
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(apiProblem(error));
      tell("error", { code: error.code });
    }
  };
  useEffect(() => {
    const onSettings = (/** @type {Settings} */ given) => {
      applyScheme(given.scheme);
      applyTheme(given.theme);
      setSettings(given);
    };
    const leave = meetSite({ onSettings, onOpened: () => document.getElementById("message")?.focus() });
    document.addEventListener("keydown", closeOnEscape);
    load();
    return leave;
  }, []);
  const { lang } = settings;
  const title = typeof settings.title === "string" ? settings.title : (found?.graph.title ?? t("page-chat"));
  const name = html`<h1 lang=${typeof lang === "string" ? lang : undefined}>${title}</h1>`;
  if (found) return html`<div class="framed"><${Chat} ...${found} name=${name} /></div>`;
  return html`
    <div class="framed">
      <header class="conversation-head">${name}<${CloseButton} /></header>
      <main class="column">
        ${
          problem
            ? html`
                <div class="notice notice-bad" role="alert">
                  <p>${problem}</p>
                  <button type="button" class="button button-small" onClick=${load}>${t("try-again")}</button>
                </div>
              `
            : html`<${Skeleton} />`
        }
      </main>
    </div>
  `;
}

/** The graph and the last conversation with it. Throws `ApiError`. @returns {Promise<Found>} */
async function find() {
  const graph = (await get(apiPath("/v1/graphs"))).items.find(({ id }) => id === GRAPH_ID);
  if (graph === undefined)
    throw new ApiError({ status: 404, code: "graph_not_open", detail: t("agent-not-available") });
  const { items } = await get(apiPath("/v1/ai-sdk/{graphId}/chats", { graphId: GRAPH_ID, limit: 1 }));
  return { graph, lastKey: items[0]?.id ?? null };
}

/** @param {Found & {name: ReturnType<typeof html>}} props */
function Chat({ graph, lastKey, name }) {
  const errors = useProblem();
  const onRunEnd = (/** @type {Conversation} */ _, /** @type {Turn} */ { runId, run }) =>
    tell("message", { runId, error: run.error });
  const { conversation, announcement, show } = useShown({ onRunEnd, onLoad: () => {} }, () => lastKey);
  const attachments = useAttachments(conversation?.key ?? "", null);
  if (conversation === null) return null;
  const fail = (/** @type {unknown} */ error) => {
    if (error instanceof ApiError) tell("error", { code: error.code });
    errors.fail(error);
  };
  const open = (/** @type {string | null} */ key) => {
    errors.clear();
    show(key);
  };
  const graphs = { graphs: [graph], graphId: graph.id, chooseGraph: () => {}, rememberGraph: () => {} };
  const actions = actionsOn(conversation, {
    ...{ graphs, attachments, open, who: USER, choices: null },
    errors: { ...errors, fail },
    began: () => {},
    onChange: () => {},
  });
  const head = (/** @type {(() => void) | null} */ remove) => html`
    <header class="conversation-head">
      ${name}
      ${
        conversation.turns.length > 0 &&
        html`
          <button type="button" class="button button-plain button-small" aria-label=${t("new-conversation")} onClick=${() => open(null)}>
            ${t("new-short")}
          </button>
        `
      }
      ${remove && html`<button type="button" class="button button-plain button-small" onClick=${remove}>${t("delete")}</button>`}
      <${CloseButton} />
    </header>
  `;
  return html`
    <${ConversationPane}
      ...${{ conversation, graphs, choices: null, attachments, head, actions, announcement }}
      draftName=${null}
      listKeys=${null}
      problem=${errors.problem}
    />
  `;
}

function CloseButton() {
  return html`
    <button type="button" class="button button-plain button-small" aria-label=${t("close")} onClick=${() => tell("close")}>×</button>
  `;
}

/** What closes within the frame goes first. @param {KeyboardEvent} event */
function closeOnEscape(event) {
  const isWithin = document.querySelector("dialog[open]") || event.composedPath().some(isForm);
  if (event.key === "Escape" && !isWithin) tell("close");
}

/** @param {EventTarget} target */
function isForm(target) {
  return target instanceof HTMLElement && target.matches(".edit-question, details[open]");
}

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
if (parent === window) app.append(t("part-of-sites"));
else render(html`<${Frame} />`, app);
