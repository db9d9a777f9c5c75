// A table of items, as cards on a narrow screen, and lists that are read in pages.

/** @import { Html } from "../html.js" */
/** @import { Requests } from "./requests.js" */

import { html, useState } from "../html.js";
import { formatTime } from "./format.js";
import { Pages } from "./pages.js";
import { loaded, useRequests } from "./requests.js";

/**
 * @template Item
 * @typedef {{label: string, show: (item: Item) => unknown, isNumber?: boolean}} Column
 */

/**
 * `rowKey` names the field that identifies an item. `details`: what is shown below it once its first cell is pressed.
 * @template Item
 * @param {{caption: string, columns: (Column<Item> | false)[], items: Item[], rowKey: keyof Item, details?: (item: Item) => Html}} props
 */
export function Table({ caption, columns, items, rowKey, details }) {
  const shown = columns.filter((column) => column !== false);
  return html`
    <div class="scroll-x" role="region" aria-label=${caption} tabindex="0">
      <table class="figures cards" role="table">
        <caption class="visually-hidden">${caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            ${shown.map((column) => html`<th scope="col" role="columnheader" class=${styleOf(column)}>${column.label}</th>`)}
          </tr>
        </thead>
        <tbody role="rowgroup">
          ${items.map((item) => html`<${Row} key=${item[rowKey]} ...${{ item, columns: shown, details }} />`)}
        </tbody>
      </table>
    </div>
  `;
}

/** @param {{isNumber?: boolean}} column */
function styleOf({ isNumber }) {
  return isNumber ? "number" : undefined;
}

/**
 * @template Item
 * @param {{item: Item, columns: Column<Item>[], details?: (item: Item) => Html}} props
 */
function Row({ item, columns, details }) {
  const [isOpen, setOpen] = useState(false);
  const pressed = (/** @type {unknown} */ content) =>
    html`<button type="button" class="disclosure" aria-expanded=${isOpen} title="Show what it consists of" onClick=${() => setOpen(!isOpen)}>${content}</button>`;
  return html`
    <tr role="row">
      ${columns.map(
        (column, index) =>
          html`<td role="cell" class=${styleOf(column)} data-label=${column.label}>${(index === 0 && details ? pressed : cellOf)(column.show(item))}</td>`,
      )}
    </tr>
    ${isOpen && details && html`<tr class="details-row" role="row"><td role="cell" colspan=${columns.length}>${details(item)}</td></tr>`}
  `;
}

/** @param {unknown} content nothing is shown of what is empty, false or null */
function cellOf(content) {
  return content === "" || content === false || content === null || content === undefined
    ? null
    : html`<div>${content}</div>`;
}

/**
 * A list that is read in pages: its first page again after `everyMs`. It begins anew when its path changes.
 * @template {ApiPath} Path
 * @param {(cursor: string | undefined) => PathOf<Path>} pathAt
 */
export function usePages(pathAt, everyMs = 0) {
  const search = pathAt("");
  // Cursors of the visited pages; the last one is shown.
  const [trail, setTrail] = useState({ search, cursors: [""] });
  const cursors = trail.search === search ? trail.cursors : [""];
  const page = useRequests([pathAt(cursors.at(-1))], null, cursors.length === 1 ? everyMs : 0);
  return { page, cursors, turnTo: (/** @type {string[]} */ next) => setTrail({ search, cursors: next }) };
}

/**
 * The page of a list that is shown: `show(items)`, or the sentence `none`.
 * @template Item
 * @param {object} pages
 * @param {Requests<readonly [{items: Item[], nextCursor?: string | null}], null>} pages.page
 * @param {string[]} pages.cursors
 * @param {(cursors: string[]) => void} pages.turnTo
 * @param {{of: string, none: string, show: (items: Item[]) => Html}} parts
 */
export function listed({ page, cursors, turnTo }, { of, none, show }) {
  return loaded(page, {
    what: of,
    show: ([found]) => html`
      ${found.items.length === 0 ? html`<p class="empty">${none}</p>` : show(found.items)}
      ${(cursors.length > 1 || found.nextCursor) && html`<${Pages} of=${of} cursors=${cursors} next=${found.nextCursor} loading=${page.loading} turnTo=${turnTo} />`}
    `,
  });
}

/**
 * A time of the API; a dash for none.
 * @param {string | null | undefined} text
 */
export function timeOf(text) {
  return text ? html`<time datetime=${text}>${formatTime(text)}</time>` : "–";
}

/**
 * An id in a column, abbreviated; a link with an address.
 * @param {string} id
 * @param {string | false} [href]
 */
export function idOf(id, href) {
  return href
    ? html`<a class="id" href=${href} title=${id}>${id}</a>`
    : html`<span class="id" title=${id}>${id}</span>`;
}

/** @param {string} word @param {string} [kind] */
export function badge(word, kind = word) {
  return html`<span class=${`badge badge-${kind}`}>${word}</span>`;
}
