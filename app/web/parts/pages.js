// The buttons of a list that is read in pages.

import { html } from "../html.js";

/**
 * `cursors` are those of the visited pages; the last one is shown.
 * @param {{of: string, cursors: string[], next: string | null | undefined, loading: boolean, turnTo: (cursors: string[]) => void}} props
 */
export function Pages({ of, cursors, next, loading, turnTo }) {
  return html`
    <nav class="pages" aria-label=${`Pages of ${of}`}>
      <button type="button" class="button button-small" disabled=${cursors.length === 1} onClick=${() => turnTo(cursors.slice(0, -1))}>
        Newer
      </button>
      <span class="hint" role="status">Page ${cursors.length}</span>
      <button
        type="button"
        class="button button-small"
        disabled=${loading || !next}
        onClick=${() => turnTo([...cursors, next ?? ""])}
      >
        Older
      </button>
    </nav>
  `;
}
