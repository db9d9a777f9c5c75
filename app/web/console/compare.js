// Two runs side by side, and what differs.

/** @import { Column } from "../parts/table.js" */
/** @import { Html } from "../html.js" */
/** @import { Session } from "../shell.js" */
/** @import { Progress } from "../runs/progress.js" */

import { apiPath } from "../api.js";
import { html } from "../html.js";
import { formatExact, formatMoney, parseDollars } from "../money.js";
import { count, duration, percent } from "../parts/format.js";
import { loaded, useRequests } from "../parts/requests.js";
import { badge, idOf, Table, timeOf } from "../parts/table.js";
import { REPEATS, textOf } from "../runs/again.js";
import { linkToComparison, linkToRun } from "../runs/links.js";
import { useProgress } from "../runs/progress.js";
import { linkTo } from "./view.js";

/** @typedef {Schemas["RunResponse"]} Run */
/** @typedef {{run: Run, receipts: Receipt[] | null, progress: Progress}} Side */
/**
 * `number` is what is compared where there is one, `text` where there is none; `show` is what is shown.
 * @typedef {{text?: string, number?: number | bigint | null, show: string | Html}} Value
 * @typedef {{name: string, a: Value, b: Value}} Row
 */

const CUT = 4000;
/** @type {Column<Row>[]} */
const COLUMNS = [
  { label: "What", show: ({ name }) => name },
  { label: "A", show: ({ a }) => a.show || "–" },
  { label: "B", show: ({ b }) => b.show || "–" },
  { label: "Difference", show: (row) => differenceOf(row) },
];

/** @param {{a: string, b: string, who: Session}} props */
export function Comparison({ a, b, who }) {
  const mayReadCosts = who.may("receipts:read");
  const receiptsOf = (/** @type {string} */ runId) =>
    mayReadCosts ? apiPath("/v1/runs/{runId}/receipts", { runId }) : null;
  const runOf = (/** @type {string} */ runId) => apiPath("/v1/runs/{runId}", { runId });
  const requests = useRequests([runOf(a), runOf(b), receiptsOf(a), receiptsOf(b)], null);
  const [first, second] = [useProgress(a), useProgress(b)];
  return html`
    <p class="row">
      <a href=${linkTo({ view: "runs" })}>← All runs</a>
      <a href=${linkToComparison(b, a)}>Change sides</a>
    </p>
    ${loaded(requests, {
      what: "these runs",
      show: ([one, other, ones, others]) => {
        const left = { run: one, receipts: ones?.items ?? null, progress: first };
        const right = { run: other, receipts: others?.items ?? null, progress: second };
        return html`
          ${[left, right].map(
            ({ run, progress: { problem } }) =>
              problem &&
              html`<p class="notice notice-warn" role="alert">
                The events of ${run.runId} cannot be read, so its steps and tools are not compared: ${problem}
              </p>`,
          )}
          <${Table} caption="Two runs side by side" rowKey="name" items=${rowsOf(left, right)} columns=${COLUMNS} />
          <section class="card" aria-labelledby="said-title">
            <h2 id="said-title">Last message, and answer</h2>
            <div class="sides"><${Said} name="A" run=${one} /><${Said} name="B" run=${other} /></div>
          </section>
        `;
      },
    })}
  `;
}

/** What was asked last, and the answer. @param {{name: string, run: Run}} props */
function Said({ name, run }) {
  const request = run.contentsDeletedAt ? null : apiPath("/v1/runs/{runId}/request", { runId: run.runId });
  const asked = useRequests([request], null);
  const { content, structuredOutput } = run.final ?? {};
  const answer = structuredOutput ? JSON.stringify(structuredOutput, null, 2) : (content ?? "");
  return html`
    <div>
      <h3>${name}</h3>
      ${
        request === null
          ? html`<p class="hint">Its contents were deleted.</p>`
          : html`
            ${loaded(asked, {
              what: "its message",
              show: ([posted]) =>
                html`<pre class="value plain asked" tabindex="0">${posted && cut(textOf(posted))}</pre>`,
            })}
            ${
              answer === ""
                ? html`<p class="hint">${run.endedAt ? "It has no answer." : "It has not ended yet."}</p>`
                : html`<pre class="value plain" tabindex="0">${cut(answer)}</pre>`
            }
          `
      }
    </div>
  `;
}

/** @param {string} said */
const cut = (said) => (said.length > CUT ? `${said.slice(0, CUT)}…` : said);

/**
 * What is compared, as far as it is known of one of them.
 * @param {Side} left
 * @param {Side} right
 * @returns {Row[]}
 */
export function rowsOf(left, right) {
  const [all, others] = [valuesOf(left), new Map(valuesOf(right))];
  return all
    .map(([name, a]) => ({ name, a, b: others.get(name) ?? a }))
    .filter(({ a, b }) => a.show !== "" || b.show !== "");
}

/** @param {Side} side @returns {[string, Value][]} */
function valuesOf({ run, receipts, progress }) {
  const { startedAt, endedAt, tags, final } = run;
  const others = Object.entries(tags ?? {}).filter(([name]) => name !== REPEATS);
  const began = startedAt ?? run.createdAt;
  const sum = (/** @type {(receipt: Receipt) => number} */ of) => {
    const number = receipts === null ? null : receipts.reduce((all, receipt) => all + of(receipt), 0);
    return { number, show: number === null ? "" : count(number) };
  };
  return [
    ["Run", { show: idOf(run.runId, receipts !== null && linkToRun(run.runId)) }],
    ["Status", { text: run.status, show: badge(run.status) }],
    ["Error", text(final?.error)],
    ["Graph", text(run.graphId)],
    ["Model", text(run.model)],
    ["End user", text(run.endUser)],
    ["Tags", text(others.map((pair) => pair.join(":")).join(" · "))],
    ["Accepted", { show: timeOf(run.createdAt) }],
    ["Waited", time(run.createdAt, startedAt)],
    ["First text after", time(began, progress.firstTextAt)],
    ["Ran", time(began, endedAt)],
    ["Attempts", { number: run.attempt + 1, show: count(run.attempt + 1) }],
    ["Steps", { number: progress.steps, show: progress.steps === null ? "" : count(progress.steps) }],
    ["Tools called", text(namesOf(progress.tools))],
    ["Messages", sum(() => 1)],
    ["Input tokens", sum(({ inputTokens }) => inputTokens)],
    ["Cache reads", sum(({ cacheReadTokens }) => cacheReadTokens)],
    ["Cache writes", sum(({ cacheWrite5mTokens, cacheWrite1hTokens }) => cacheWrite5mTokens + cacheWrite1hTokens)],
    ["Output tokens", sum(({ outputTokens }) => outputTokens)],
    ["Cost", costOf(run)],
  ];
}

/** @param {string | null | undefined} value @returns {Value} */
const text = (value) => ({ text: value ?? "", show: value ?? "" });

/** @param {string} from @param {string | null | undefined} to @returns {Value} */
function time(from, to) {
  return to ? { number: Date.parse(to) - Date.parse(from), show: duration(from, to) } : { number: null, show: "" };
}

/** @param {Run} run @returns {Value} */
function costOf({ billing }) {
  if (billing === null) return { number: null, show: "" };
  const cost = parseDollars(billing.costUsd);
  return { number: cost, show: html`<span title=${formatExact(cost)}>${formatMoney(cost)}</span>` };
}

/** Each with how often it was called. @param {string[]} tools */
function namesOf(tools) {
  /** @type {Map<string, number>} */
  const times = new Map();
  for (const tool of tools) times.set(tool, (times.get(tool) ?? 0) + 1);
  return [...times].map(([tool, calls]) => (calls > 1 ? `${tool} × ${calls}` : tool)).join(", ");
}

/**
 * What differs: B against A.
 * @param {Row} row
 */
export function differenceOf({ a, b }) {
  if (a.number === undefined || b.number === undefined) return a.text === b.text ? "" : html`<strong>differs</strong>`;
  if (a.number === null || b.number === null || a.number === b.number) return "";
  const [before, after] = [BigInt(a.number), BigInt(b.number)];
  const more = after > before;
  const change = more ? after - before : before - after;
  const part = before === 0n ? "" : ` ${percent(Number(change), Number(before))}`;
  return html`<strong class=${more ? "more" : "less"}>${more ? "▲" : "▼"}${part} ${more ? "more" : "less"}</strong>`;
}
