// Answers of a person to what waits in a run. They throw `ApiError`.

import { apiPath, get, post } from "../api.js";

/** @typedef {{decision: Schemas["PermissionDecision"]["decision"], args?: Record<string, unknown>, message?: string}} Decision */
/** @typedef {Record<string, string | string[]>} Answers by the index of each question */

/**
 * Allow or deny a tool call.
 * @param {string} runId
 * @param {string} requestId
 * @param {Decision} decision
 */
export async function decide(runId, requestId, { decision, args, message }) {
  const body = { decision, ...(args && { args }), ...(message && { message }) };
  await post(apiPath("/v1/runs/{runId}/permissions/{requestId}", { runId, requestId }), body);
}

/**
 * Answer a question, or with null decline to.
 * @param {string} runId
 * @param {string} requestId
 * @param {Answers | null} answers
 */
export async function answer(runId, requestId, answers) {
  await post(apiPath("/v1/runs/{runId}/questions/{requestId}", { runId, requestId }), { answers });
}

/**
 * The schema of the arguments of a call that waits; null if the server does not know it.
 * @param {string} runId
 * @param {string} requestId
 */
export async function schemaOf(runId, requestId) {
  const { items } = await get(apiPath("/v1/approvals", { runId, kind: "approval" }));
  return items.find((call) => call.requestId === requestId)?.inputSchema ?? null;
}
