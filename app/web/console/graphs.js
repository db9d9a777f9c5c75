// Graphs as the server has them, and one with a preview of a run.

/** @import { Column } from "../parts/table.js" */
/** @import { Session } from "../shell.js" */
/** @import { Query } from "./view.js" */

import { apiPath } from "../api.js";
import { html } from "../html.js";
import { formatMoney, parseDollars } from "../money.js";
import { loaded, useRequests } from "../parts/requests.js";
import { Table } from "../parts/table.js";
import { Preview } from "./preview.js";
import { linkTo } from "./view.js";

/** @typedef {Schemas["GraphResponse"]} Graph */

/** @param {{who: Session, query: Query}} props */
export function Graphs({ who, query }) {
  const graphs = useRequests([apiPath("/v1/graphs")], null);
  return loaded(graphs, {
    what: "graphs",
    show: ([{ items }]) => {
      if (!query.graph) return html`<${AllGraphs} graphs=${items} />`;
      const graph = items.find(({ id }) => id === query.graph);
      return graph
        ? html`<${OneGraph} key=${graph.id} who=${who} graph=${graph} />`
        : html`<p class="notice notice-warn">There is no graph of this name, or this key may not run it.</p>`;
    },
  });
}

/** @type {Column<Graph>[]} */
const COLUMNS = [
  { label: "Graph", show: ({ id }) => html`<a href=${linkTo({ view: "graphs", graph: id })}>${id}</a>` },
  { label: "Description", show: ({ description }) => html`<span class="wrapped">${description}</span>` },
  { label: "Model", show: ({ model }) => model ?? html`<span class="muted">the default</span>` },
  { label: "Tools", isNumber: true, show: ({ tools, nativeTools }) => tools.length + nativeTools.length },
  {
    label: "Consent",
    show: ({ approve, hasRules }) => [hasRules && "rules", approve.length > 0 && "asks"].filter(Boolean).join(", "),
  },
];

/** @param {{graphs: Graph[]}} props */
function AllGraphs({ graphs }) {
  return html`<${Table} caption="Graphs by id" rowKey="id" items=${graphs} columns=${COLUMNS} />`;
}

/** @param {{who: Session, graph: Graph}} props */
function OneGraph({ who, graph }) {
  const { id, description, maxTurns, maxBudgetUsd, timeoutS, web, clientTools, questions } = graph;
  const facts = [
    ["Provider", graph.provider],
    ["Model", graph.model ?? "the default"],
    ["Tools", graph.tools.join(", ")],
    ["Native tools", graph.nativeTools.join(", ")],
    ["Subagents", graph.agents.join(", ")],
    ["Skills", graph.skills.join(", ")],
    ["The web", web && [web.search && "search", web.fetch && "fetch"].filter(Boolean).join(", ")],
    ["Asks before", graph.approve.join(", ")],
    ["Permission modes", graph.permissionModes.join(", ")],
    ["Steps, at most", maxTurns],
    ["Budget of a run", maxBudgetUsd && formatMoney(parseDollars(maxBudgetUsd))],
    ["Time of a run", timeoutS && `${timeoutS} s`],
    ["May ask a person", questions && "yes"],
    ["Tools of clients", clientTools && "yes"],
    ["Begins again after a crash", graph.retry && "yes"],
  ];
  return html`
    <p><a href=${linkTo({ view: "graphs" })}>← All graphs</a></p>
    <section class="card" aria-labelledby="graph-title">
      <h2 id="graph-title">${id}</h2>
      <p>${description}</p>
      <dl class="facts">${facts.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    </section>
    ${who.may("runs:write") && html`<${Preview} graphId=${id} />`}
  `;
}
