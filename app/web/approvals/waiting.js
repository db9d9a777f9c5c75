// A live list of what waits for an answer, and the answers.

/** @import { Answers, Decision } from "../runs/answers.js" */
/** @import { Permission } from "../runs/run_state.js" */
/** @import { Raised } from "./raise_budget.js" */
/** @import { Session } from "../shell.js" */

import { ApiError, apiPath } from "../api.js";
import { linkTo } from "../chat/hooks.js";
import { apiProblem, toolTitle } from "../chat/messages.js";
import { Question } from "../chat/question.js";
import { Value } from "../chat/text.js";
import { Consent } from "../chat/tool_call.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { locale, t, tIfKnown, tWithElements } from "../languages.js";
import { notify } from "../parts/notices.js";
import { useRequests } from "../parts/requests.js";
import { answer, decide } from "../runs/answers.js";
import { RaiseBudget } from "./raise_budget.js";

const EVERY_MS = 2000;
const SHOWN_AT_FIRST = 50;
const SHOWN_AT_MOST = 200;

/** @typedef {Schemas["ApprovalResponse"]} Call */
/** @typedef {Schemas["ApprovalsResponse"]} Calls */
/** @typedef {{kind?: Call["kind"] | "", graphId?: string, runId?: string, stateKey?: string}} Filters */
/** @typedef {(said: string) => void} Answered is called with what was answered */

/**
 * `isPage`: it is the page, whose title has the count; otherwise it is shown only while something waits.
 * @param {{who: Session, filters: Filters, isPage?: boolean}} props
 */
export function Waiting({ who, filters, isPage = false }) {
  const [limit, setLimit] = useState(SHOWN_AT_FIRST);
  const {
    responses,
    problem,
    retry: reload,
  } = useRequests([apiPath("/v1/approvals", { ...filters, limit })], null, EVERY_MS);
  const calls = responses?.[0] ?? null;
  const [said, setSaid] = useState("");
  const counts = calls?.counts;
  const total = counts ? counts.approval + counts.question + counts.clientTool + counts.budget : 0;
  /** @type {{current: number | null}} */
  const told = useRef(null);
  useEffect(() => {
    if (!isPage || !counts) return;
    const title = t("page-approvals");
    document.title = t("page-title", { title: total > 0 ? t("counted-title", { count: total, title }) : title });
    if (told.current !== null && total > told.current) notify(t("something-waits"), countsOf(counts));
    told.current = total;
  }, [isPage, total, !counts]);
  if (calls === null) {
    if (problem) return html`<p class="notice notice-bad" role="alert">${sentence(problem)}</p>`;
    return isPage ? html`<p class="waiting" role="status">${t("loading")}</p>` : null;
  }
  if (!isPage && total === 0 && said === "") return null;
  const answered = (/** @type {string} */ text) => {
    setSaid(text);
    reload();
    // The answered call disappears; the keyboard goes on from the top of the list.
    document.getElementById("waits-title")?.focus();
  };
  return html`
    <section aria-labelledby="waits-title">
      <h2 id="waits-title" tabindex="-1">${total === 0 ? t("nothing-waits") : countsOf(calls.counts)}</h2>
      <p class="hint" role="status">${said}</p>
      ${problem && html`<p class="notice notice-bad" role="alert">${sentence(problem)}</p>`}
      <ul class="waits">
        ${calls.items.map(
          (call) => html`<li class="card" key=${`${call.runId}/${call.requestId}`}>
            <${Head} call=${call} isPage=${isPage} />
            <${Body} call=${call} who=${who} answered=${answered} />
          </li>`,
        )}
      </ul>
      ${
        calls.nextCursor !== null &&
        (limit < SHOWN_AT_MOST
          ? html`<button type="button" class="button" onClick=${() => setLimit(SHOWN_AT_MOST)}>${t("show-more")}</button>`
          : html`<p class="hint">${t("newest-waiting", { count: SHOWN_AT_MOST })}</p>`)
      }
    </section>
  `;
}

/** @param {Error} problem */
function sentence(problem) {
  if (!(problem instanceof ApiError)) throw problem;
  return apiProblem(problem);
}

/** @param {{call: Call, isPage: boolean}} props */
function Head({ call, isPage }) {
  const { kind, graphId, runId, stateKey, requestedAt, toolName } = call;
  const kindName = tIfKnown(`kind-${kind}`) ?? kind;
  return html`
    <div>
      <h3>${toolName === null ? kindName : t("kind-of-tool", { kind: kindName, tool: toolTitle(toolName) })}</h3>
      <p class="hint">
        ${tWithElements("waits-since", {
          graph: html`<bdi>${graphId}</bdi>`,
          time: html`<time datetime=${requestedAt}>${new Date(requestedAt).toLocaleString(locale)}</time>`,
        })}
        ${isPage && html` · <a href=${`./billing?run=${encodeURIComponent(runId)}`}>${t("run")}</a>`}
        ${stateKey !== null && html` · <a href=${`./${linkTo(stateKey)}`}>${t("conversation")}</a>`}
      </p>
    </div>
  `;
}

/** @param {{call: Call, who: Session, answered: Answered}} props */
function Body({ call, who, answered }) {
  const { runId, requestId, questions, toolName } = call;
  if (questions !== null) {
    const post = async (/** @type {string} */ _, /** @type {Answers | null} */ answers) => {
      await answer(runId, requestId, answers);
      answered(t(answers === null ? "question-declined" : "question-answered"));
    };
    const entry = {
      kind: "question",
      requestId,
      source: call.source ?? "",
      questions,
      resolvedBy: null,
      answers: null,
    };
    return html`<${Question} entry=${entry} live=${true} answer=${who.may("runs:write") ? post : null} />`;
  }
  if (call.kind === "budget" && who.may("runs:approve")) {
    const post = async (/** @type {Raised} */ raised) => {
      await decide(runId, requestId, raised);
      answered(t(raised.decision === "deny" ? "run-ends" : "limit-raised"));
    };
    return html`<${RaiseBudget} budget=${call.budget} decide=${post} />`;
  }
  if (call.kind !== "approval" || !who.may("runs:approve")) {
    return html`
      ${call.kind !== "budget" && html`<${Value} value=${call.args} label=${t("arguments")} />`}
      <p class="notice">
        ${t(call.kind === "client_tool" ? "client-tool-waits" : "decision-not-allowed")}
      </p>
    `;
  }
  const { args, expiresAt, grantable } = call;
  const permission = { requestId, args, expiresAt, grantable, decision: null, reason: null, changed: false };
  const post = async (/** @type {Permission} */ _, /** @type {Decision} */ decision) => {
    await decide(runId, requestId, decision);
    answered(t(decision.decision === "deny" ? "said-denied" : "said-allowed", { tool: toolTitle(toolName ?? "") }));
  };
  return html`<${Consent} name=${toolName ?? ""} permission=${permission} decide=${post} findSchema=${async () => call.inputSchema} />`;
}

/** @param {Calls["counts"]} counts */
function countsOf({ approval, question, clientTool, budget }) {
  const named = /** @type {const} */ ([
    [approval, "waiting-approvals"],
    [question, "waiting-questions"],
    [clientTool, "waiting-client-tools"],
    [budget, "waiting-budgets"],
  ]);
  const counted = named.filter(([count]) => count > 0).map(([count, id]) => t(id, { count }));
  return new Intl.ListFormat(locale, { type: "unit" }).format(counted);
}
