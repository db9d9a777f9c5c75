// What a model got as the result of a call, which no event has: for keys that may read the evidence of runs.

import { apiPath, get } from "../api.js";

/** What a command says first of all when it fails. */
const EXIT_CODE = /^Exit code (\d+)(?:\n|$)/;

/** `exitCode` is null if it is not known. @typedef {{text: string, isError: boolean, exitCode: number | null}} CallResult */
/** @typedef {{type: string, tool_use_id?: string, text?: string, is_error?: boolean, content?: string | Block[]}} Block */

/**
 * Null if it is not stored, or not yet. Throws `ApiError`.
 * @param {string} runId
 * @param {string} toolCallId
 * @returns {Promise<CallResult | null>}
 */
export async function resultOf(runId, toolCallId) {
  for (let cursor = 0; ;) {
    const page = await get(apiPath("/v1/runs/{runId}/evidence", { runId, cursor }));
    for (const { type, content } of page.items) {
      if (type !== "prompt_rendered") continue;
      const messages = /** @type {{content: string | Block[]}[]} */ (content.messages);
      const blocks = messages.flatMap((message) => (typeof message.content === "string" ? [] : message.content));
      const found = blocks.find((block) => block.type === "tool_result" && block.tool_use_id === toolCallId);
      if (found) return resultIn(found);
    }
    if (!page.nextCursor) return null;
    cursor = Number(page.nextCursor);
  }
}

/**
 * @param {Block} block
 * @returns {CallResult}
 */
function resultIn({ content, is_error: isError = false }) {
  const whole = typeof content === "string" ? content : (content ?? []).map(({ text }) => text ?? "").join("\n");
  const code = isError ? EXIT_CODE.exec(whole) : null;
  return { text: code ? whole.slice(code[0].length) : whole, isError, exitCode: code ? Number(code[1]) : null };
}
