// The choice of an agent, and of the model and the effort that its runs have.

/** @import { RunChoices } from "../conversation.js" */
/** @import { Graphs } from "../hooks.js" */
/** @import { Graph, Model } from "../agents/describing.js" */

import { apiPath, get } from "../../api.js";
import { html, useEffect, useLayoutEffect, useState, withValue } from "../../html.js";
import { t } from "../../languages.js";
import { closeOnEscape } from "../../parts/escape.js";
import { effortsOf, modelNamed, nameOf } from "../agents/describing.js";

/** @typedef {ReturnType<typeof useRunChoices>} Choices */

/**
 * The models, none until they are loaded, and what is chosen for the graph; another one begins with its own.
 * @param {string | null} graphId
 * @param {boolean} mayList whether models are open to who is signed in
 */
export function useRunChoices(graphId, mayList) {
  const [models, setModels] = useState(/** @type {Model[]} */ ([]));
  const [chosen, setChosen] = useState(/** @type {RunChoices} */ ({}));
  useEffect(() => {
    if (!mayList) return;
    // Without them an agent runs as its graph says.
    get(apiPath("/v1/models")).then(
      ({ items }) => setModels(items.filter(({ priced, refusal }) => priced && !refusal)),
      () => {},
    );
  }, []);
  useLayoutEffect(() => setChosen({}), [graphId]);
  return { models, chosen, setChosen };
}

/** @param {Graphs} graphs */
export function AgentChoice({ graphs, graphId, chooseGraph }) {
  return html`
    <label class="composer-graph" title=${graphId ?? ""}>
      <span class="visually-hidden">${t("graph")}</span>
      <select value=${graphId ?? ""} disabled=${!graphs?.length} onChange=${withValue(chooseGraph)}>
        ${(graphs ?? []).map(
          (graph) => html`
            <option key=${graph.id} value=${graph.id} title=${graph.id} dir="auto" selected=${graph.id === graphId}>
              ${nameOf(graph, graphs ?? [])}
            </option>
          `,
        )}
      </select>
    </label>
  `;
}

/** @param {{graph: Graph, choices: Choices}} props */
export function RunOptions({ graph, choices: { models, chosen, setChosen } }) {
  const own = modelNamed(models, graph.model);
  const model = chosen.model ? modelNamed(models, chosen.model) : own;
  const efforts = effortsOf(graph, model);
  const { model: named, effort } = chosen;
  const others = models.filter((each) => each !== own);
  if (own === undefined || (others.length === 0 && efforts.length === 0)) return null;
  const chooseModel = (/** @type {string} */ id) => setChosen(id ? { model: id } : {});
  const chooseEffort = (/** @type {string} */ value) =>
    setChosen({
      ...(named ? { model: named } : {}),
      ...(value ? { effort: efforts.find((each) => each === value) } : {}),
    });
  return html`
    <details class="composer-options" onKeyDown=${closeOnEscape}>
      <summary>${[model?.aliases[0] ?? model?.id, effort].filter(Boolean).join(" · ")}</summary>
      <div class="card">
        <label class="field">
          <span>${t("model")}</span>
          <select value=${named ?? ""} onChange=${withValue(chooseModel)}>
            <option value="">${t("own-model", { model: own.aliases[0] ?? own.id })}</option>
            ${others.map(({ id }) => html`<option key=${id} value=${id} selected=${id === named}>${id}</option>`)}
          </select>
        </label>
        ${
          efforts.length > 0 &&
          html`
          <label class="field">
            <span>${t("effort")}</span>
            <select value=${effort ?? ""} onChange=${withValue(chooseEffort)}>
              <option value="">${t("own")}</option>
              ${efforts.map((each) => html`<option key=${each} value=${each} selected=${each === effort}>${each}</option>`)}
            </select>
          </label>
        `
        }
      </div>
    </details>
  `;
}
