// The runs of the account: filtered, live, each with a link to its page; two of them are compared.

/** @import { Column } from "../parts/table.js" */
/** @import { Session } from "../shell.js" */
/** @import { Query, Show } from "./view.js" */

import { apiPath, get, post } from "../api.js";
import { html } from "../html.js";
import { formatExact, formatFixed, parseDollars } from "../money.js";
import { Action } from "../parts/action.js";
import { FilterFields } from "../parts/filter_fields.js";
import { duration } from "../parts/format.js";
import { useRequests } from "../parts/requests.js";
import { SavedViews } from "../parts/saved_views.js";
import { badge, idOf, listed, Table, timeOf, usePages } from "../parts/table.js";
import { useWholeList, WHOLE_PAGE } from "../parts/whole_list.js";
import { linkToComparison, linkToRun } from "../runs/links.js";
import { Comparison } from "./compare.js";
import { linkTo } from "./view.js";

const EVERY_MS = 3000;
const PAGE = 50;
const STATUSES = /** @type {const} */ (["queued", "running", "waiting", "succeeded", "failed", "cancelled"]);

/** @typedef {Schemas["RunResponse"]} Run */

/** @param {{who: Session, query: Query, show: Show}} props */
export function Runs({ who, query, show }) {
  return query.a && query.b
    ? html`<${Comparison} key=${`${query.a} ${query.b}`} a=${query.a} b=${query.b} who=${who} />`
    : html`<${AllRuns} ...${{ who, query, show }} />`;
}

/** @param {{who: Session, query: Query, show: Show}} props */
function AllRuns({ who, query, show }) {
  const mayReadCosts = who.may("receipts:read");
  const graphs = useRequests([apiPath("/v1/graphs")], null).responses?.[0].items ?? [];
  const keys = useWholeList(mayReadCosts ? "" : null, (cursor) =>
    get(apiPath("/v1/keys", { limit: WHOLE_PAGE, cursor })),
  ).items;
  const chosen = {
    status: STATUSES.find((status) => status === query.status),
    graphId: query.graphId,
    model: query.model,
    apiKeyId: query.apiKeyId,
    endUser: query.endUser,
    tag: query.tag,
    stateKey: query.stateKey,
    from: query.from,
    to: query.to,
  };
  const pages = usePages((cursor) => apiPath("/v1/runs", { ...chosen, limit: PAGE, cursor }), EVERY_MS);
  const optionsOf = (/** @type {string | undefined} */ value, /** @type {[string, string][]} */ named) => {
    const isNamed = !value || named.some(([option]) => option === value);
    return /** @type {[string, string][]} */ ([["", "any"], ...named, ...(isNamed ? [] : [[value, value]])]);
  };
  const filters = [
    {
      name: "status",
      label: "Status",
      options: optionsOf(
        "",
        STATUSES.map((status) => [status, status]),
      ),
    },
    {
      name: "graphId",
      label: "Graph",
      options: optionsOf(
        query.graphId,
        graphs.map(({ id }) => [id, id]),
      ),
    },
    { name: "model", label: "Model" },
    ...(mayReadCosts
      ? [
          {
            name: "apiKeyId",
            label: "API key",
            options: optionsOf(
              query.apiKeyId,
              keys.map(({ id, name, prefix }) => [id, name ?? `${prefix}…`]),
            ),
          },
        ]
      : []),
    { name: "endUser", label: "End user" },
    { name: "tag", label: "Tag", placeholder: "team:search" },
    { name: "stateKey", label: "Conversation" },
    { name: "from", label: "From (UTC)", isTime: true },
    { name: "to", label: "To (UTC)", isTime: true },
    ...(mayReadCosts ? [{ name: "run", label: "Open by id", placeholder: "run id" }] : []),
  ];
  return html`
    <${SavedViews} of=${`runs.${who.account}`} href=${linkTo({ ...query, view: "runs", a: "" })} />
    <${FilterFields}
      filters=${filters}
      values=${query}
      problem=${pages.page.problem}
      choose=${(/** @type {Query} */ changes) => (changes.run ? location.assign(linkToRun(changes.run)) : show(changes))}
    />
    ${
      query.a &&
      html`<p class="notice" role="status">
        Choose the run that <code>${query.a}</code> is compared with, or <a href=${linkTo({ ...query, a: "" })}>do not compare</a>.
      </p>`
    }
    ${listed(pages, {
      of: "runs",
      none: "No run matches.",
      show: (items) => html`<${Table}
        caption="Runs, newest first"
        rowKey="runId"
        items=${items}
        columns=${columnsFor(who, query, pages.page.retry)}
      />`,
    })}
  `;
}

/**
 * @param {Session} who @param {Query} query @param {() => void} reload
 * @returns {(Column<Run> | false)[]}
 */
function columnsFor(who, query, reload) {
  const mayReadCosts = who.may("receipts:read");
  return [
    { label: "Accepted", show: (run) => timeOf(run.createdAt) },
    { label: "Run", show: (run) => idOf(run.runId, mayReadCosts && linkToRun(run.runId)) },
    { label: "Status", show: (run) => html`<span class="wrapped">${badge(run.status)} ${run.final?.error}</span>` },
    { label: "Graph, model", show: (run) => html`${run.graphId}<br /><span class="muted">${run.model}</span>` },
    { label: "End user, tags", show: labelsOf },
    {
      label: "Ran",
      isNumber: true,
      show: (run) => (run.startedAt && run.endedAt ? duration(run.startedAt, run.endedAt) : "–"),
    },
    mayReadCosts && { label: "Cost", isNumber: true, show: ({ billing }) => billing && costOf(billing.costUsd) },
    {
      label: "Actions",
      show: (run) => {
        const actions = [
          run.runId !== query.a && html`<${CompareLink} href=${comparing(run, query)} runId=${run.runId} />`,
          who.may("runs:write") && run.endedAt === null && html`<${Cancel} run=${run} done=${reload} />`,
        ].filter(Boolean);
        return actions.length > 0 && html`<div class="row">${actions}</div>`;
      },
    },
  ];
}

/** @param {Run} run */
function labelsOf({ endUser, tags }) {
  const labels = [endUser, ...Object.entries(tags ?? {}).map(([name, value]) => `${name}:${value}`)].filter(Boolean);
  return (
    labels.length > 0 &&
    html`<span class="wrapped">${labels.map((label, index) => html`${index > 0 && " · "}<bdi>${label}</bdi>`)}</span>`
  );
}

/** @param {{href: string, runId: string}} props */
function CompareLink({ href, runId }) {
  return html`<a class="button button-small" href=${href}>Compare<span class="visually-hidden"> ${runId}</span></a>`;
}

/** The first of two is chosen, or the second. @param {Run} run @param {Query} query */
function comparing({ runId }, query) {
  return query.a ? linkToComparison(query.a, runId) : linkTo({ ...query, view: "runs", a: runId });
}

/** @param {string} costUsd */
function costOf(costUsd) {
  const cost = parseDollars(costUsd);
  return html`<span title=${formatExact(cost)}>${formatFixed(cost, 6)}</span>`;
}

/** @param {{run: Run, done: () => void}} props */
function Cancel({ run: { runId, graphId }, done }) {
  return html`<${Action}
    label="Cancel"
    about=${runId}
    title="Cancel this run?"
    words=${`The run of ${graphId} is stopped and ends as cancelled. What the model has said so far stays, and is charged.`}
    submit="Cancel the run"
    isDestructive
    send=${() => post(apiPath("/v1/runs/{runId}/cancel", { runId }), undefined)}
    done=${done}
  />`;
}
