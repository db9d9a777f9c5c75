// What people are told of a conversation whose page is hidden.

/** @import { Conversation, Turn } from "./conversation.js" */

import { useEffect, useRef } from "../html.js";
import { t } from "../languages.js";
import { notify } from "../parts/notices.js";
import { readable } from "./markdown.js";
import { runProblem } from "./messages.js";

/** People wait for shorter runs. */
const LONG_MS = 10_000;

/**
 * Tell of each call or question that begins to wait, and count them in the title of the page.
 * @param {Conversation} conversation
 * @param {string} title
 */
export function useWaitingNotices({ key, open }, title) {
  const waiting = open.reduce((sum, { run }) => sum + run.pendingApprovals.length + run.pendingQuestions.length, 0);
  const told = useRef({ key, waiting });
  useEffect(() => {
    if (told.current.key === key && waiting > told.current.waiting) {
      notify(readable(title), t("notice-waits"));
    }
    told.current = { key, waiting };
  }, [key, waiting]);
  useEffect(() => {
    const shown = waiting > 0 ? t("counted-title", { count: waiting, title }) : title;
    document.title = t("page-title", { title: shown });
  }, [title, waiting]);
}

/**
 * Tell of the end of a run that took long, or that was begun before the page was loaded.
 * @param {Conversation} conversation
 * @param {Turn} turn
 */
export function tellEnd({ title, key }, { run, since }) {
  if (since !== undefined && performance.now() - since < LONG_MS) return;
  notify(readable(title ?? key), run.error ? runProblem(run.error, run.finishReason) : t("notice-answer"));
}
