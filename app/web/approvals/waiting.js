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
import { notify } from "../parts/notices.js";
import { useRequests } from "../parts/requests.js";
import { answer, decide } from "../runs/answers.js";
import { RaiseBudget } from "./raise_budget.js";

const EVERY_MS = 2000;
const SHOWN_AT_FIRST = 50;
const SHOWN_AT_MOST = 200;
const KINDS = { approval: "Approval", question: "Question", client_tool: "Client tool", budget: "Budget" };

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
    document.title = `${total > 0 ? `(${total}) ` : ""}Approvals – Runtally`;
    if (told.current !== null && total > told.current) notify("Something waits for an answer", countsOf(counts));
    told.current = total;
  }, [isPage, total, !counts]);
  if (calls === null) {
    if (problem) return html`<p class="notice notice-bad" role="alert">${sentence(problem)}</p>`;
    return isPage ? html`<p class="waiting" role="status">Loading…</p>` : null;
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
      <h2 id="waits-title" tabindex="-1">${total === 0 ? "Nothing waits" : countsOf(calls.counts)}</h2>
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
          ? html`<button type="button" class="button" onClick=${() => setLimit(SHOWN_AT_MOST)}>Show more</button>`
          : html`<p class="hint">These are the newest ${SHOWN_AT_MOST}. Choose a graph, a run or a conversation to see others.</p>`)
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
  return html`
    <div>
      <h3>${KINDS[kind] ?? kind}${toolName !== null && `: ${toolTitle(toolName)}`}</h3>
      <p class="hint">
        ${graphId}, since <time datetime=${requestedAt}>${new Date(requestedAt).toLocaleString()}</time>
        ${isPage && html` · <a href=${`./billing?run=${encodeURIComponent(runId)}`}>Run</a>`}
        ${stateKey !== null && html` · <a href=${`./${linkTo(stateKey)}`}>Conversation</a>`}
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
      answered(answers === null ? "Declined to answer." : "Answered.");
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
      answered(raised.decision === "deny" ? "The run ends." : "The limit is raised.");
    };
    return html`<${RaiseBudget} budget=${call.budget} decide=${post} />`;
  }
  if (call.kind !== "approval" || !who.may("runs:approve")) {
    return html`
      ${call.kind !== "budget" && html`<${Value} value=${call.args} label="Arguments" />`}
      <p class="notice">
        ${call.kind === "client_tool" ? "It waits for the program that has brought the tool." : "It waits for a decision, which your API key may not make."}
      </p>
    `;
  }
  const { args, expiresAt, grantable } = call;
  const permission = { requestId, args, expiresAt, grantable, decision: null, reason: null, changed: false };
  const post = async (/** @type {Permission} */ _, /** @type {Decision} */ decision) => {
    await decide(runId, requestId, decision);
    answered(`${decision.decision === "deny" ? "Denied" : "Allowed"}: ${toolTitle(toolName ?? "")}.`);
  };
  return html`<${Consent} name=${toolName ?? ""} permission=${permission} decide=${post} findSchema=${async () => call.inputSchema} />`;
}

/** @param {Calls["counts"]} counts */
function countsOf({ approval, question, clientTool, budget }) {
  const named = /** @type {const} */ ([
    [approval, "approval"],
    [question, "question"],
    [clientTool, "client tool"],
    [budget, "budget"],
  ]);
  return named
    .filter(([count]) => count > 0)
    .map(([count, name]) => `${count} ${name}${count === 1 ? "" : "s"}`)
    .join(", ");
}
