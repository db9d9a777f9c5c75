// The hooks that hold the state of the chat page.

import { ApiError, get } from "../api.js";
import { useEffect, useReducer, useRef, useState } from "../html.js";
import { Conversation, newKey } from "./conversation.js";
import { rendered } from "./markdown.js";
import { apiProblem, runProblem } from "./messages.js";

const PARAMETER = "conversation";
const LAST_GRAPH = "runtally.graph";
const ANNOUNCED_CHARS = 1000;

/** The last `problem` as a sentence, `fail(error)`, which sets it, and `clear()`. */
export function useProblem() {
  const [problem, setProblem] = useState("");
  const fail = (error) => {
    if (!(error instanceof ApiError)) throw error;
    setProblem(apiProblem(error));
  };
  return { problem, fail, clear: () => setProblem("") };
}

/** The graphs, null until they are loaded, and the chosen one. */
export function useGraphs(fail) {
  const [graphs, setGraphs] = useState(null);
  const [graphId, chooseGraph] = useState(/** @type {string | null} */ (null));
  useEffect(() => {
    get("v1/graphs").then(({ items }) => {
      setGraphs(items);
      const last = items.find(({ id }) => id === localStorage.getItem(LAST_GRAPH));
      chooseGraph((chosen) => chosen ?? (last ?? items[0])?.id ?? null);
    }, fail);
  }, []);
  return { graphs, graphId, chooseGraph, rememberGraph: () => localStorage.setItem(LAST_GRAPH, graphId ?? "") };
}

/** The conversations, most recently used first; `more` is null if all are listed. */
export function useSessions(fail) {
  const [page, setPage] = useState(
    /** @type {{items: any[], nextCursor: string | null}} */ ({ items: [], nextCursor: null }),
  );
  const list = () => get("v1/sessions").then(setPage, fail);
  const more = async () => {
    if (page.nextCursor === null) return;
    const next = await get(`v1/sessions?cursor=${encodeURIComponent(page.nextCursor)}`);
    setPage({ ...next, items: [...page.items, ...next.items] });
  };
  useEffect(() => void list(), []);
  return { sessions: page.items, list, more: page.nextCursor && (() => more().catch(fail)) };
}

/**
 * The conversation in the URL; `go(key)` shows another, null a new one. `announcement` is the end of the last
 * run, for screen readers. `onLoad(conversation)` is called when a conversation has been loaded.
 */
export function useConversation({ onRunEnd, onLoad }) {
  const [, draw] = useReducer((/** @type {number} */ count, /** @type {void} */ _) => count + 1, 0);
  const [announcement, setAnnouncement] = useState("");
  const current = useRef(
    /** @type {{conversation: Conversation | null, scheduled: boolean}} */ ({ conversation: null, scheduled: false }),
  );

  const onChange = () => {
    if (current.current.scheduled) return;
    current.current.scheduled = true;
    // Once per animation frame, however fast events arrive.
    requestAnimationFrame(() => {
      current.current.scheduled = false;
      draw();
    });
  };
  const announceEnd = ({ run }) => {
    setAnnouncement(run.error ? runProblem(run.error, run.finishReason) : `Answer: ${plain(run.answer)}`);
    onRunEnd();
  };
  const show = async (key) => {
    current.current.conversation?.close();
    const conversation = new Conversation(key ?? newKey(), { onChange, onRunEnd: announceEnd });
    current.current.conversation = conversation;
    setAnnouncement("");
    draw();
    if (key !== null) await conversation.load();
    if (current.current.conversation === conversation) onLoad(conversation);
  };
  const go = (key) => {
    history.pushState(null, "", key === null ? "./" : linkTo(key));
    show(key);
  };
  useEffect(() => {
    const onPopState = () => show(keyOfUrl());
    addEventListener("popstate", onPopState);
    show(keyOfUrl());
    return () => {
      removeEventListener("popstate", onPopState);
      current.current.conversation?.close();
    };
  }, []);
  return { conversation: current.current.conversation, announcement, go };
}

/** The link to a conversation. */
export function linkTo(key) {
  return `?${PARAMETER}=${encodeURIComponent(key)}`;
}

function keyOfUrl() {
  return new URLSearchParams(location.search).get(PARAMETER);
}

function plain(markdown) {
  const start = markdown.slice(0, ANNOUNCED_CHARS);
  return rendered(start)?.textContent ?? start;
}
