// Views of a list that a person has named. They are kept in this browser; the address of each can be shared.

/** @import { Values } from "./form.js" */

import { html, useState } from "../html.js";
import { Action } from "./action.js";

/** @typedef {{name: string, href: string}} SavedView */

/**
 * `of` is what the views are kept for; `href` is the address of the view that is shown.
 * @param {{of: string, href: string}} props
 */
export function SavedViews({ of, href }) {
  const key = `runtally.views.${of}`;
  const [views, setViews] = useState(() => /** @type {SavedView[]} */ (JSON.parse(localStorage.getItem(key) ?? "[]")));
  const keep = (/** @type {SavedView[]} */ next) => {
    localStorage.setItem(key, JSON.stringify(next));
    setViews(next);
  };
  const others = (/** @type {string} */ named) => views.filter(({ name }) => name !== named);
  return html`
    <div class="row" role="group" aria-label="Saved views">
      ${views.map(
        (view) => html`
          <span class="saved-view" key=${view.name}>
            <a href=${view.href} aria-current=${view.href === href ? "true" : undefined}>${view.name}</a>
            <button type="button" class="link" aria-label=${`Forget ${view.name}`} onClick=${() => keep(others(view.name))}>×</button>
          </span>
        `,
      )}
      <${Action}
        label="Save this view"
        title="Save this view"
        words="Its filters are kept in this browser under this name. To share them, copy the address of the page."
        submit="Save"
        fields=${[{ name: "name", label: "Name", required: true }]}
        send=${async (/** @type {Values} */ { name }) => keep([...others(name), { name, href }])}
        done=${() => {}}
      />
    </div>
  `;
}
