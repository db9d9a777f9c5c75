// What is shown of a conversation that has no turns: what the agent can do, and what to begin with.

/** @import { Conversation } from "../conversation.js" */
/** @import { Graph } from "./describing.js" */

import { html } from "../../html.js";
import { t } from "../../languages.js";
import { abilitiesOf, nameOf } from "./describing.js";

/**
 * `suggest(message)` puts a message into the field; null for those who may not write.
 * @typedef {object} FirstScreenProps
 * @property {Conversation} conversation
 * @property {Graph[] | null} graphs
 * @property {string | null} graphId
 * @property {((message: string) => void) | null} suggest
 */

/** @param {FirstScreenProps} props */
export function FirstScreen({ conversation, graphs, graphId, suggest }) {
  if (conversation.problem) return html`<p class="notice notice-bad" role="alert">${conversation.problem}</p>`;
  if (conversation.loading || graphs === null) return html`<${Skeleton} />`;
  if (graphs.length === 0) return html`<p class="notice notice-warn">${t("no-graphs")}</p>`;
  const graph = graphs.find(({ id }) => id === graphId);
  return graph ? html`<${Agent} graph=${graph} graphs=${graphs} suggest=${suggest} />` : null;
}

/** Lines in place of a conversation that is being loaded. */
export function Skeleton() {
  return html`
    <div class="skeleton" role="status">
      <span class="visually-hidden">${t("loading")}</span>
      ${["short", "long", "long", "middle"].map((length) => html`<span class=${`skeleton-line skeleton-${length}`}></span>`)}
    </div>
  `;
}

/** @param {{graph: Graph, graphs: Graph[], suggest: FirstScreenProps["suggest"]}} props */
function Agent({ graph, graphs, suggest }) {
  const abilities = abilitiesOf(graph);
  return html`
    <div class="empty">
      <h2 title=${graph.id} dir="auto">${nameOf(graph, graphs)}</h2>
      <p dir="auto">${graph.description}</p>
      ${
        abilities.length > 0 &&
        html`
        <p class="hint" id="abilities">${t("it-can")}</p>
        <ul class="abilities" aria-labelledby="abilities">
          ${abilities.map(({ does, by }) => html`<li key=${by} title=${by}>${does}</li>`)}
        </ul>
      `
      }
      ${
        suggest &&
        graph.suggestions.length > 0 &&
        html`
        <ul class="suggestions" aria-label=${t("suggestions")}>
          ${graph.suggestions.map(
            ({ title, message }) => html`
              <li key=${title}>
                <button type="button" class="button suggestion" dir="auto" onClick=${() => suggest(message)}>${title}</button>
              </li>
            `,
          )}
        </ul>
      `
      }
    </div>
  `;
}
