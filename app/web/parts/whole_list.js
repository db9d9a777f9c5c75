// Lists of which every item may be needed, such as the names of keys.

import { ApiError } from "../api.js";
import { useEffect, useState } from "../html.js";

/** As many as the API gives. */
export const WHOLE_PAGE = 200;

/**
 * The items of a list, those of each page once it is there, and whether more will come.
 * @template Item
 * @param {string | null} of identifies the list; null is none
 * @param {(cursor: string) => Promise<{items: Item[], nextCursor?: string | null}>} read
 */
export function useWholeList(of, read) {
  const [found, setFound] = useState({ of, items: /** @type {Item[]} */ ([]), isWhole: of === null });
  useEffect(() => {
    let isCurrent = true;
    const readFrom = async (/** @type {string} */ cursor, /** @type {Item[]} */ before) => {
      const { items, nextCursor } = await read(cursor);
      if (!isCurrent) return;
      const all = [...before, ...items];
      setFound({ of, items: all, isWhole: !nextCursor });
      if (nextCursor) await readFrom(nextCursor, all);
    };
    const readAll = async () => {
      try {
        if (of !== null) await readFrom("", []);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        // What has no name is shown by its id.
        if (isCurrent) setFound((held) => ({ of, items: held.of === of ? held.items : [], isWhole: true }));
      }
    };
    readAll();
    return () => void (isCurrent = false);
  }, [of]);
  return found.of === of ? found : { items: [], isWhole: false };
}
