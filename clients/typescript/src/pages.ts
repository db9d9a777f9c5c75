// The pages of lists.
import type { Call, Connection } from "./connection.js";
import { InvalidResponse, isObject } from "./errors.js";

const PAGE_LIMIT = 200;

/** Yield the items of all pages; a page is requested when the items before it were taken. */
export async function* each<T>(connection: Connection, call: Call, name = "items"): AsyncGenerator<T, void, undefined> {
  let cursor: string | undefined;
  for (;;) {
    const query = { ...call.query, limit: PAGE_LIMIT, cursor };
    const page = pageOf<T>(await connection.json({ ...call, query }), name);
    yield* page.items;
    if (page.nextCursor === undefined) return;
    if (page.nextCursor === cursor) {
      throw new InvalidResponse("The server's list does not end: two pages have the same nextCursor.");
    }
    cursor = page.nextCursor;
  }
}

export function pageOf<T>(page: unknown, name: string): { items: T[]; nextCursor: string | undefined } {
  const items = isObject(page) ? page[name] : undefined;
  if (!isObject(page) || !Array.isArray(items)) throw new InvalidResponse(`The server's list has no ${name}.`);
  const { nextCursor } = page;
  return { items: items as T[], nextCursor: typeof nextCursor === "string" ? nextCursor : undefined };
}
