// What the chat page knows, and what changes it.

import { ApiError, get } from "../api.js";
import { useEffect, useReducer, useRef, useState } from "../html.js";
import { Conversation, newKey } from "./conversation.js";
import { rendered } from "./markdown.js";
import { apiProblem, runProblem } from "./words.js";

const PARAMETER = "conversation";
const LAST_GRAPH = "runtally.graph";
const SPOKEN_CHARS = 1000;

/** What went wrong last: `problem`, and `fail(error)`, which says it in plain words. */
export function useProblem() {
  const [problem, setProblem] = useState("");
  const fail = (error) => {
    if (!(error instanceof ApiError)) throw error;
    setProblem(apiProblem(error));
  };
  return { problem, fail, forgive: () => setProblem("") };
}

/** The graphs there are, null until they are known, and the one that is chosen. */
export function useGraphs(fail) {
  const [graphs, setGraphs] = useState(null);
  const [graphId, chooseGraph] = useState(null);
  useEffect(() => {
    get("v1/graphs").then(({ items }) => {
      setGraphs(items);
      const last = items.find(({ id }) => id === localStorage.getItem(LAST_GRAPH));
      chooseGraph((chosen) => chosen ?? (last ?? items[0])?.id ?? null);
    }, fail);
  }, []);
  return { graphs, graphId, chooseGraph, keepGraph: () => localStorage.setItem(LAST_GRAPH, graphId) };
}

/** The conversations there are, those used last first; `more` is null where all are listed. */
export function useSessions(fail) {
  const [page, setPage] = useState({ items: [], nextCursor: null });
  const list = () => get("v1/sessions").then(setPage, fail);
  const more = async () => {
    const next = await get(`v1/sessions?cursor=${encodeURIComponent(page.nextCursor)}`);
    setPage({ ...next, items: [...page.items, ...next.items] });
  };
  useEffect(() => void list(), []);
  return { sessions: page.items, list, more: page.nextCursor && (() => more().catch(fail)) };
}

/**
 * The conversation that the URL names, and the way to another: `go(key)`, null for a new one. `spoken` is the
 * end of the last run, for whoever hears the page. `shown(conversation)` is called when one has been read.
 */
export function useConversation({ ended, shown }) {
  const [, draw] = useReducer((count) => count + 1, 0);
  const [spoken, setSpoken] = useState("");
  const here = useRef({ conversation: null, scheduled: false });

  const changed = () => {
    if (here.current.scheduled) return;
    here.current.scheduled = true;
    // As often as the screen is drawn, however fast events come.
    requestAnimationFrame(() => {
      here.current.scheduled = false;
      draw();
    });
  };
  const over = ({ run }) => {
    setSpoken(run.error ? runProblem(run.error, run.finishReason) : `Answer: ${plain(run.answer)}`);
    ended();
  };
  const show = async (key) => {
    here.current.conversation?.close();
    const conversation = new Conversation(key ?? newKey(), { changed, ended: over });
    here.current.conversation = conversation;
    setSpoken("");
    draw();
    if (key !== null) await conversation.load();
    if (here.current.conversation === conversation) shown(conversation);
  };
  const go = (key) => {
    history.pushState(null, "", key === null ? "./" : addressOf(key));
    show(key);
  };
  useEffect(() => {
    const back = () => show(keyOfUrl());
    addEventListener("popstate", back);
    show(keyOfUrl());
    return () => {
      removeEventListener("popstate", back);
      here.current.conversation.close();
    };
  }, []);
  return { conversation: here.current.conversation, spoken, go };
}

/** Where a conversation is, as a link. */
export function addressOf(key) {
  return `?${PARAMETER}=${encodeURIComponent(key)}`;
}

function keyOfUrl() {
  return new URLSearchParams(location.search).get(PARAMETER);
}

function plain(markdown) {
  const start = markdown.slice(0, SPOKEN_CHARS);
  return rendered(start)?.textContent ?? start;
}
