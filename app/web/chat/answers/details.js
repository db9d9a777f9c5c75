// What an answer has taken: model, time and tokens, and what it cost for those who may see that.

/** @import { Turn } from "../conversation.js" */

import { ApiError, apiPath, get } from "../../api.js";
import { html, useEffect, useState } from "../../html.js";
import { locale, t } from "../../languages.js";
import { count } from "../../parts/format.js";
import { dollars } from "../cost.js";
import { apiProblem } from "../messages.js";

const tenths = new Intl.NumberFormat(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const CACHE_WRITES = /** @type {const} */ (["cacheWrite5mTokens", "cacheWrite1hTokens"]);

/** @param {{turn: Turn, showsReceipts: boolean}} props */
export function Details({ turn, showsReceipts }) {
  const [rows, setRows] = useState(/** @type {[string, string][] | null} */ (null));
  const [problem, setProblem] = useState("");
  useEffect(() => {
    read(turn.runId, showsReceipts).then(setRows, (error) => {
      if (!(error instanceof ApiError)) throw error;
      setProblem(apiProblem(error));
    });
  }, []);
  return html`
    <div class="answer-details" role="group" aria-label=${t("details-of-answer")}>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${!problem && !rows && html`<p class="muted" role="status">${t("loading")}</p>`}
      ${rows && html`<dl>${rows.map(([name, value]) => html`<dt>${name}</dt><dd><bdi>${value}</bdi></dd>`)}</dl>`}
    </div>
  `;
}

/**
 * @param {string} runId
 * @param {boolean} showsReceipts
 * @returns {Promise<[string, string][]>}
 */
async function read(runId, showsReceipts) {
  const run = await get(apiPath("/v1/runs/{runId}", { runId }));
  const receipts = showsReceipts ? (await get(apiPath("/v1/runs/{runId}/receipts", { runId }))).items : [];
  const models = [...new Set([...receipts.map(({ model }) => model), ...(receipts.length ? [] : [run.model])])];
  /** @type {[string, string][]} */
  const rows = [[t("model"), models.join(", ")]];
  if (run.startedAt && run.endedAt) {
    const seconds = (Date.parse(run.endedAt) - Date.parse(run.startedAt)) / 1000;
    rows.push([t("time"), t("seconds", { count: tenths.format(seconds) })]);
  }
  rows.push(...(receipts.length ? tokensOf(receipts) : usageOf(run)));
  const { contextUsed, contextWindow } = run.final ?? {};
  if (contextUsed && contextWindow)
    rows.push([t("context"), t("context-of", { used: count(contextUsed), window: count(contextWindow) })]);
  if (run.billing) rows.push([t("cost"), dollars(run.billing.costUsd)]);
  rows.push([t("run"), runId]);
  return rows;
}

/**
 * @param {Receipt[]} receipts
 * @returns {[string, string][]}
 */
function tokensOf(receipts) {
  const sum = (/** @type {(receipt: Receipt) => number} */ of) =>
    count(receipts.reduce((total, receipt) => total + of(receipt), 0));
  return [
    [t("model-calls"), count(receipts.length)],
    [t("input-tokens"), sum(({ inputTokens }) => inputTokens)],
    [t("cache-reads"), sum(({ cacheReadTokens }) => cacheReadTokens)],
    [t("cache-writes"), sum((receipt) => CACHE_WRITES.reduce((total, name) => total + receipt[name], 0))],
    [t("output-tokens"), sum(({ outputTokens }) => outputTokens)],
  ];
}

/**
 * @param {Schemas["RunResponse"]} run
 * @returns {[string, string][]}
 */
function usageOf({ final }) {
  const { promptTokens = 0, completionTokens = 0 } = final?.usage ?? {};
  return [
    [t("input-tokens"), count(promptTokens)],
    [t("output-tokens"), count(completionTokens)],
  ];
}
