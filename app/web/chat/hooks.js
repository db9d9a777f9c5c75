// The hooks that hold the state of the chat page.

/** @import { Turn } from "./conversation.js" */

import { ApiError, apiPath, get, post } from "../api.js";
import { useEffect, useReducer, useRef, useState } from "../html.js";
import { t } from "../languages.js";
import { whenBack } from "../parts/presence.js";
import { firstOf, inOrder } from "./agents/describing.js";
import { Conversation, newKey } from "./conversation.js";
import { rendered } from "./markdown.js";
import { apiProblem, runProblem } from "./messages.js";

const PARAMETER = "conversation";
const LAST_GRAPH = "runtally.graph";
const ANNOUNCED_CHARS = 1000;
const HIDDEN_DRAW_MS = 500;

/** @typedef {ReturnType<typeof useProblem>} Problem */
/** @typedef {ReturnType<typeof useGraphs>} Graphs */
/** @typedef {(error: unknown) => void} Fail */

/** The last `problem` as a sentence, `fail(error)`, which sets it, and `clear()`. */
export function useProblem() {
  const [problem, setProblem] = useState(/** @type {ApiError | null} */ (null));
  /** @type {Fail} */
  const fail = (error) => {
    if (!(error instanceof ApiError)) throw error;
    setProblem(error);
  };
  // What needs the connection is asked again.
  useEffect(() => whenBack(() => setProblem((last) => (last?.code === "unreachable" ? null : last))), []);
  return { problem: problem ? apiProblem(problem) : "", fail, clear: () => setProblem(null) };
}

/**
 * The graphs, null until they are loaded, and the chosen one.
 * @param {Fail} fail
 */
export function useGraphs(fail) {
  const [graphs, setGraphs] = useState(/** @type {Schemas["GraphResponse"][] | null} */ (null));
  const [graphId, chooseGraph] = useState(/** @type {string | null} */ (null));
  useEffect(() => {
    get(apiPath("/v1/graphs")).then(({ items }) => {
      const offered = inOrder(items);
      setGraphs(offered);
      const last = offered.find(({ id }) => id === localStorage.getItem(LAST_GRAPH));
      chooseGraph((chosen) => chosen ?? (last ?? firstOf(offered))?.id ?? null);
    }, fail);
  }, []);
  return { graphs, graphId, chooseGraph, rememberGraph: () => localStorage.setItem(LAST_GRAPH, graphId ?? "") };
}

/**
 * What a run of the graph usually costs and takes; null while that is not known.
 * @param {string | null} graphId
 */
export function useForecast(graphId) {
  const [forecast, setForecast] = useState(/** @type {Schemas["ForecastResponse"] | null} */ (null));
  useEffect(() => {
    let current = true;
    setForecast(null);
    if (graphId === null) return undefined;
    const request = { graphId, messages: [{ role: /** @type {const} */ ("user"), content: "?" }] };
    // It was not asked for: without an answer nothing is shown.
    post(apiPath("/v1/runs/preview"), request).then(
      (preview) => current && setForecast(preview.forecast),
      () => {},
    );
    return () => void (current = false);
  }, [graphId]);
  return forecast;
}

/** @typedef {{onRunEnd: (conversation: Conversation, turn: Turn) => void, onLoad: (conversation: Conversation) => void}} Listeners */

/**
 * The conversation in the URL; `go(key)` shows another, null a new one.
 * @param {Listeners} listeners
 */
export function useConversation(listeners) {
  const { show, ...shown } = useShown(listeners, keyOfUrl);
  const go = (/** @type {string | null} */ key) => {
    history.pushState(null, "", key === null ? "./" : linkTo(key));
    show(key);
  };
  useEffect(() => {
    const onPopState = () => show(keyOfUrl());
    addEventListener("popstate", onPopState);
    return () => removeEventListener("popstate", onPopState);
  }, []);
  return { ...shown, go };
}

/**
 * The shown conversation, null before there is one; `show(key)` shows another, null a new one. `announcement` is the
 * end of the last run, for screen readers. `onLoad(conversation)` is called when a conversation has been loaded.
 * @param {Listeners} listeners
 * @param {() => string | null} first the key of what is shown first
 */
export function useShown({ onRunEnd, onLoad }, first) {
  const [, draw] = useReducer((/** @type {number} */ count, /** @type {void} */ _) => count + 1, 0);
  const [announcement, setAnnouncement] = useState("");
  const current = useRef(
    /** @type {{conversation: Conversation | null, scheduled: boolean}} */ ({ conversation: null, scheduled: false }),
  );

  const onChange = () => {
    if (current.current.scheduled) return;
    current.current.scheduled = true;
    // Once per animation frame, however fast events arrive; a hidden page has none.
    const drawOnce = () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      current.current.scheduled = false;
      draw();
    };
    const frame = requestAnimationFrame(drawOnce);
    const timer = setTimeout(drawOnce, HIDDEN_DRAW_MS);
  };
  const announceEnd = (/** @type {Turn} */ turn) => {
    const { run } = turn;
    setAnnouncement(
      run.error ? runProblem(run.error, run.finishReason) : t("announced-answer", { text: plain(run.answer) }),
    );
    const { conversation } = current.current;
    if (conversation !== null) onRunEnd(conversation, turn);
  };
  const show = async (/** @type {string | null} */ key) => {
    current.current.conversation?.close();
    const conversation = new Conversation(key ?? newKey(), { onChange, onRunEnd: announceEnd });
    current.current.conversation = conversation;
    setAnnouncement("");
    draw();
    if (key !== null) await conversation.load();
    if (current.current.conversation === conversation) onLoad(conversation);
  };
  useEffect(() => {
    show(first());
    const leave = whenBack(async () => {
      try {
        await current.current.conversation?.catchUp();
      } catch (error) {
        // Without an answer nothing is new.
        if (!(error instanceof ApiError)) throw error;
      }
    });
    return () => {
      leave();
      current.current.conversation?.close();
    };
  }, []);
  return { conversation: current.current.conversation, announcement, show };
}

/**
 * The link to a conversation.
 * @param {string} key
 */
export function linkTo(key) {
  return `?${PARAMETER}=${encodeURIComponent(key)}`;
}

/** The key of the conversation in the URL; null for a new one. */
export function keyOfUrl() {
  return new URLSearchParams(location.search).get(PARAMETER);
}

/** @param {string} markdown */
function plain(markdown) {
  const start = markdown.slice(0, ANNOUNCED_CHARS);
  return rendered(start)?.textContent ?? start;
}
