// The spans of a run as a table whose last column draws them over time.

/** @import { Span } from "./spans.js" */

import { html } from "../../html.js";
import { count, duration } from "../../parts/format.js";

const MOST = 300;
const KINDS = { queue: "queue", model: "model", tool: "tool", waiting: "waits for a person" };

/** @param {{spans: Span[], since: string, until: string}} props `until` is the end, or now */
export function Waterfall({ spans, since, until }) {
  const all = Math.max(1, Date.parse(until) - Date.parse(since));
  const part = (/** @type {string} */ from, /** @type {string} */ to) =>
    `${Math.min(100, Math.max(0, (100 * (Date.parse(to) - Date.parse(from))) / all))}%`;
  return html`
    <section class="card" aria-labelledby="trace-title">
      <h2 id="trace-title">What took how long</h2>
      <div class="scroll-x" role="region" aria-label="Spans of this run" tabindex="0">
        <table class="figures trace">
          <caption class="visually-hidden">Model calls, tools and what waited, in the order in which they began</caption>
          <thead>
            <tr>
              <th scope="col">What</th>
              <th scope="col">Kind</th>
              <th scope="col" class="number">Began</th>
              <th scope="col" class="number">Took</th>
              <th scope="col" class="drawn" aria-hidden="true"></th>
            </tr>
          </thead>
          <tbody>
            ${spans.slice(0, MOST).map(
              ({ kind, name, from, to, depth, state }) => html`
                <tr>
                  <th scope="row" style=${{ paddingLeft: `${depth * 16}px` }}><span class="named" title=${name}>${name}</span></th>
                  <td>${KINDS[kind]}${state && html` <span class="badge badge-failed">${state}</span>`}</td>
                  <td class="number">+${duration(since, from)}</td>
                  <td class="number">${to === null ? "still lasts" : duration(from, to)}</td>
                  <td class="drawn" aria-hidden="true">
                    <div class=${`span span-${kind} ${state && "span-bad"}`} style=${{ marginLeft: part(since, from), width: part(from, to ?? until) }}></div>
                  </td>
                </tr>
              `,
            )}
          </tbody>
        </table>
      </div>
      ${spans.length > MOST && html`<p class="hint">These are the first ${MOST} of ${count(spans.length)}.</p>`}
    </section>
  `;
}
