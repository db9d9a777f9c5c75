// Finds the colours of code.

import { withTimeLimit } from "./time_limit.js";

const LIMIT_MS = 2000;

/** @typedef {[text: string, kind: string][]} Pieces a code in parts, each with its class or "" */

/**
 * The code in parts; nothing if the language is unknown, it takes too long or fails.
 * @type {(question: {code: string, language: string}) => Promise<Pieces | null | undefined>}
 */
export const highlighted = withTimeLimit(new URL("./highlight_worker.js", import.meta.url), LIMIT_MS);
