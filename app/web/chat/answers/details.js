// What an answer has taken: model, time and tokens, and what it cost for those who may see that.

/** @import { Turn } from "../conversation.js" */

import { ApiError, apiPath, get } from "../../api.js";
import { html, useEffect, useState } from "../../html.js";
import { dollars } from "../cost.js";
import { apiProblem } from "../messages.js";

const numbers = new Intl.NumberFormat("en-US");
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
    <div class="answer-details" role="group" aria-label="Details of this answer">
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${!problem && !rows && html`<p class="muted" role="status">Loading…</p>`}
      ${rows && html`<dl>${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`}
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
  const rows = [["Model", models.join(", ")]];
  if (run.startedAt && run.endedAt) {
    rows.push(["Time", `${((Date.parse(run.endedAt) - Date.parse(run.startedAt)) / 1000).toFixed(1)} s`]);
  }
  rows.push(...(receipts.length ? tokensOf(receipts) : usageOf(run)));
  if (run.billing) rows.push(["Cost", dollars(run.billing.costUsd)]);
  rows.push(["Run", runId]);
  return rows;
}

/**
 * @param {Receipt[]} receipts
 * @returns {[string, string][]}
 */
function tokensOf(receipts) {
  const sum = (/** @type {(receipt: Receipt) => number} */ of) =>
    numbers.format(receipts.reduce((total, receipt) => total + of(receipt), 0));
  return [
    ["Model calls", numbers.format(receipts.length)],
    ["Input tokens", sum(({ inputTokens }) => inputTokens)],
    ["Read from the cache", sum(({ cacheReadTokens }) => cacheReadTokens)],
    ["Written to the cache", sum((receipt) => CACHE_WRITES.reduce((total, name) => total + receipt[name], 0))],
    ["Output tokens", sum(({ outputTokens }) => outputTokens)],
  ];
}

/**
 * @param {Schemas["RunResponse"]} run
 * @returns {[string, string][]}
 */
function usageOf({ final }) {
  const { promptTokens = 0, completionTokens = 0 } = final?.usage ?? {};
  return [
    ["Input tokens", numbers.format(promptTokens)],
    ["Output tokens", numbers.format(completionTokens)],
  ];
}
