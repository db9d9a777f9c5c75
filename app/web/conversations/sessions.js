// The lists of conversations that the sidebar shows.

/** @import { Fail } from "../chat/hooks.js" */

import { ApiError, apiPath, get, patch } from "../api.js";
import { useEffect, useRef, useState } from "../html.js";
import { t } from "../languages.js";
import { whenBack } from "../parts/presence.js";

const MOST_PINNED = 200;
const SEARCH_DELAY_MS = 300;
const DAY_MS = 86_400_000;

/** @typedef {Schemas["ListedConversation"]} Listed */
/** @typedef {{title: string, items: Listed[]}} Group */
/** @typedef {{words: string, archived: boolean}} View what is listed: words are searched in all conversations */
/** @typedef {ReturnType<typeof useSessions>} Sessions */

/** @type {{of: View, pinned: Listed[], items: Listed[], next: string | null}} */
const NOTHING = { of: { words: "", archived: false }, pinned: [], items: [], next: null };

/**
 * The conversations in groups; `more` is null if all are listed. `look(view)` chooses what is listed,
 * `change(key, changes)` renames, pins or archives one.
 * @param {Fail} fail
 */
export function useSessions(fail) {
  const [view, setView] = useState(NOTHING.of);
  const [found, setFound] = useState(NOTHING);
  const [loading, setLoading] = useState(true);
  const asked = useRef(0);
  // Runs that end call the `list` of an earlier drawing.
  const latest = useRef(view);
  latest.current = view;

  const read = async (/** @type {View} */ of, /** @type {string | null} */ cursor = null) => {
    asked.current += 1;
    const mine = asked.current;
    setLoading(true);
    try {
      const page = await pageOf(of, cursor, () => asked.current === mine);
      if (asked.current !== mine) return;
      setFound((before) =>
        cursor === null ? page : { ...page, pinned: before.pinned, items: [...before.items, ...page.items] },
      );
    } finally {
      if (asked.current === mine) setLoading(false);
    }
  };
  const list = () => void read(latest.current).catch(fail);
  useEffect(() => {
    const timer = setTimeout(list, view.words ? SEARCH_DELAY_MS : 0);
    return () => clearTimeout(timer);
  }, [view.words, view.archived]);

  const refresh = () =>
    read(latest.current).catch((/** @type {unknown} */ error) => {
      // The connection may be back a moment later than the browser says.
      if (!(error instanceof ApiError && error.code === "unreachable")) fail(error);
    });
  useEffect(() => whenBack(refresh), []);

  const change = async (/** @type {string} */ stateKey, /** @type {Schemas["ChangedConversation"]} */ changes) => {
    await patch(apiPath("/v1/sessions/{stateKey}", { stateKey }), changes);
    await read(latest.current);
  };
  const { next } = found;
  return {
    view,
    look: setView,
    loading,
    list,
    change: (/** @type {string} */ key, /** @type {Schemas["ChangedConversation"]} */ changes) =>
      change(key, changes).catch(fail),
    groups: groupsOf(found),
    more: next === null ? null : () => void read(view, next).catch(fail),
  };
}

/**
 * @param {View} of
 * @param {string | null} cursor
 * @param {() => boolean} isWanted whether nothing else is to be listed by now
 */
async function pageOf(of, cursor, isWanted) {
  const { words, archived } = of;
  if (words.trim()) {
    const filters = { q: words.trim() };
    let page = await get(apiPath("/v1/sessions", { ...filters, cursor: cursor ?? undefined }));
    // A page of a search may be empty before the last one.
    while (page.items.length === 0 && page.nextCursor && isWanted()) {
      page = await get(apiPath("/v1/sessions", { ...filters, cursor: page.nextCursor }));
    }
    return { of, pinned: [], items: page.items, next: page.nextCursor ?? null };
  }
  const [pinned, page] = await Promise.all([
    archived || cursor !== null ? [] : pinnedOnes(),
    get(apiPath("/v1/sessions", { archived, pinned: archived ? undefined : false, cursor: cursor ?? undefined })),
  ]);
  return { of, pinned, items: page.items, next: page.nextCursor ?? null };
}

async function pinnedOnes() {
  return (await get(apiPath("/v1/sessions", { archived: false, pinned: true, limit: MOST_PINNED }))).items;
}

/**
 * @param {typeof NOTHING} found
 * @returns {Group[]}
 */
function groupsOf({ of: { words, archived }, pinned, items }) {
  if (words.trim() || archived) return [{ title: t(words.trim() ? "group-found" : "group-archived"), items }];
  const today = new Date().setHours(0, 0, 0, 0);
  /** @type {[string, number][]} since when the conversations of a group were last used */
  const groups = [
    [t("group-today"), today],
    [t("group-yesterday"), daysBefore(today, 1)],
    [t("group-week"), daysBefore(today, 7)],
    [t("group-older"), -Infinity],
  ];
  let before = Infinity;
  return [
    { title: t("group-pinned"), items: pinned },
    ...groups.map(([title, since]) => {
      const until = before;
      before = since;
      const at = (/** @type {Listed} */ { updatedAt }) => Date.parse(updatedAt);
      return { title, items: items.filter((each) => since <= at(each) && at(each) < until) };
    }),
  ].filter((group) => group.items.length > 0);
}

/**
 * The beginning of an earlier day; days are not always 24 hours long.
 * @param {number} day
 * @param {number} count
 */
function daysBefore(day, count) {
  return new Date(day + DAY_MS / 2 - count * DAY_MS).setHours(0, 0, 0, 0);
}
