// Schedules of the account with their next times, and the history of one.

/** @import { Column } from "../parts/table.js" */
/** @import { Session } from "../shell.js" */
/** @import { Field, Values } from "../parts/form.js" */
/** @import { Query } from "./view.js" */

import { apiPath, patch, post, remove } from "../api.js";
import { html } from "../html.js";
import { Action } from "../parts/action.js";
import { loaded, useRequests } from "../parts/requests.js";
import { badge, idOf, listed, Table, timeOf, usePages } from "../parts/table.js";
import { linkToRun } from "../runs/links.js";
import { linkTo } from "./view.js";

const PAGE = 50;
const EVERY_MS = 5000;
const OVERLAPS = /** @type {const} */ ([
  ["skip", "leave it out"],
  ["queue", "start it afterwards"],
  ["cancel", "cancel the earlier run"],
  ["allow", "start it as well"],
]);
const REASONS = {
  by_request: "by request",
  key_revoked: "its key was revoked",
  failing: "its runs were refused too often",
};

/** @typedef {Schemas["ScheduleResponse"]} Schedule */
/** @typedef {Schemas["ScheduledRunResponse"]} DueTime */

/** @param {{who: Session, query: Query}} props */
export function Schedules({ who, query }) {
  return query.schedule
    ? html`<${OneSchedule} key=${query.schedule} who=${who} scheduleId=${query.schedule} />`
    : html`<${AllSchedules} who=${who} />`;
}

/** @type {Column<Schedule>[]} */
const SCHEDULE_COLUMNS = [
  {
    label: "Schedule",
    show: ({ scheduleId }) =>
      html`<a class="wrapped" href=${linkTo({ view: "schedules", schedule: scheduleId })}>${scheduleId}</a>`,
  },
  { label: "Graph", show: ({ graphId }) => graphId },
  { label: "Times", show: (schedule) => timesOf(schedule) },
  { label: "Next", show: (schedule) => stateOf(schedule) },
  { label: "Last", show: ({ lastAt }) => timeOf(lastAt) },
  { label: "Question", show: ({ question }) => html`<span class="wrapped clipped">${question}</span>` },
];

/** @param {{who: Session}} props */
function AllSchedules({ who }) {
  const pages = usePages((cursor) => apiPath("/v1/schedules", { limit: PAGE, cursor }), EVERY_MS);
  return html`
    ${who.may("runs:write") && html`<div class="row"><${Create} done=${pages.page.retry} /></div>`}
    ${listed(pages, {
      of: "schedules",
      none: "No run is started by a schedule.",
      show: (items) =>
        html`<${Table} caption="Schedules, newest first" rowKey="scheduleId" items=${items} columns=${SCHEDULE_COLUMNS} />`,
    })}
  `;
}

/** @param {Schedule} schedule */
function timesOf({ cron, timeZone }) {
  return html`<code>${cron}</code> ${timeZone}`;
}

/** @param {Schedule} schedule */
function stateOf({ paused, pausedReason, nextAt }) {
  if (paused) return html`${badge("paused", "partial")} ${pausedReason && REASONS[pausedReason]}`;
  return nextAt === null ? "no more" : timeOf(nextAt);
}

/** @param {Schedule} [schedule] */
function timingFields(schedule) {
  return /** @type {Field[]} */ ([
    {
      name: "cron",
      label: "Cron expression",
      value: schedule?.cron,
      required: true,
      hint: "Minute, hour, day, month, weekday: 0 7 * * 1-5",
    },
    { name: "timeZone", label: "Time zone", value: schedule?.timeZone ?? "UTC", required: true },
    {
      name: "overlap",
      label: "If the earlier run has not ended",
      kind: "choice",
      options: OVERLAPS,
      value: schedule?.overlap,
    },
    {
      name: "catchUpS",
      label: "Start it late by at most, in seconds",
      kind: "number",
      value: schedule?.catchUpS ?? 3600,
      required: true,
    },
    { name: "startAt", label: "Not before", kind: "time", value: schedule?.startAt },
    { name: "endAt", label: "Not after", kind: "time", value: schedule?.endAt },
  ]);
}

/** @param {{done: () => void}} props */
function Create({ done }) {
  const graphs = useRequests([apiPath("/v1/graphs")], null);
  const fields = /** @type {Field[]} */ ([
    {
      name: "scheduleId",
      label: "Name",
      hint: "Letters, digits, dots, hyphens and underscores; one is made if it is empty.",
    },
    {
      name: "run.graphId",
      label: "Graph",
      kind: "choice",
      options: graphs.responses?.[0].items.map(({ id }) => [id, id]) ?? [],
      required: true,
    },
    { name: "question", label: "Question", kind: "long", required: true },
    { name: "run.stateKey", label: "Conversation", hint: "Its runs go on with this one; empty: each begins anew." },
    ...timingFields(),
  ]);
  return html`<${Action}
    label="Create a schedule"
    title="Create a schedule"
    words="Its runs are started with your key, and charged to it."
    submit="Create"
    isPrimary
    fields=${fields}
    send=${(/** @type {Values} */ values) => post(apiPath("/v1/schedules"), requestOf(values))}
    done=${done}
  />`;
}

/** @param {Values} values */
function requestOf({ question, "run.graphId": graphId, "run.stateKey": stateKey, ...timing }) {
  const run = { graphId, stateKey, messages: [{ role: /** @type {const} */ ("user"), content: question }] };
  return { .../** @type {Pick<Schedule, "cron">} */ (timing), run };
}

/** @param {{who: Session, scheduleId: string}} props */
function OneSchedule({ who, scheduleId }) {
  const schedule = useRequests([apiPath("/v1/schedules/{scheduleId}", { scheduleId })], null, EVERY_MS);
  return html`
    <p><a href=${linkTo({ view: "schedules" })}>← All schedules</a></p>
    ${loaded(schedule, {
      what: "the schedule",
      show: ([found]) => html`
        <section class="card" aria-labelledby="schedule-title">
          <h2 id="schedule-title">${found.scheduleId}</h2>
          <${Facts} schedule=${found} />
          ${who.may("runs:write") && html`<${Changes} schedule=${found} reload=${schedule.retry} />`}
        </section>
        <${History} who=${who} scheduleId=${scheduleId} />
      `,
    })}
  `;
}

/** @param {{schedule: Schedule}} props */
function Facts({ schedule }) {
  const { graphId, model, stateKey, overlap, startAt, endAt, question } = schedule;
  const facts = [
    ["Next", stateOf(schedule)],
    ["Times", timesOf(schedule)],
    ["Graph", graphId],
    ["Model", model],
    ["Conversation", stateKey],
    ["If the earlier run has not ended", OVERLAPS.find(([name]) => name === overlap)?.[1]],
    ["Not before", startAt && timeOf(startAt)],
    ["Not after", endAt && timeOf(endAt)],
  ];
  return html`
    <dl class="facts">${facts.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <p>${question}</p>
  `;
}

/** @param {{schedule: Schedule, reload: () => void}} props */
function Changes({ schedule, reload }) {
  const { scheduleId, paused } = schedule;
  const path = apiPath("/v1/schedules/{scheduleId}", { scheduleId });
  return html`
    <div class="row">
      <${Action}
        label="Start now"
        title="Start a run now?"
        words="As if the schedule were due now, also while it is paused."
        submit="Start it"
        send=${() => post(apiPath("/v1/schedules/{scheduleId}/trigger", { scheduleId }), undefined)}
        done=${reload}
      />
      ${
        paused
          ? html`<${Action}
              label="Resume"
              title="Resume the schedule?"
              words="It goes on with its next time. If its key was revoked, its runs use yours from now on."
              send=${() => post(apiPath("/v1/schedules/{scheduleId}/resume", { scheduleId }), undefined)}
              done=${reload}
            />`
          : html`<${Action}
              label="Pause"
              title="Pause the schedule?"
              words="No run is started at its times. Runs that have been started go on."
              send=${() => post(apiPath("/v1/schedules/{scheduleId}/pause", { scheduleId }), undefined)}
              done=${reload}
            />`
      }
      <${Action}
        label="Change the times"
        title="Change the times"
        submit="Save"
        fields=${timingFields(schedule)}
        send=${(/** @type {Values} */ { startAt = null, endAt = null, ...timing }) => patch(path, { startAt, endAt, ...timing })}
        done=${reload}
      />
      <${Action}
        label="Delete"
        title="Delete the schedule?"
        words="No run is started any more, and its history is deleted. Its runs and their receipts stay. This cannot be undone."
        submit="Delete the schedule"
        isDestructive
        send=${() => remove(path)}
        result=${() => html`<p>It is deleted.</p>`}
        done=${() => location.assign(linkTo({ view: "schedules" }))}
      />
    </div>
  `;
}

/** @param {{who: Session, scheduleId: string}} props */
function History({ who, scheduleId }) {
  const pages = usePages(
    (cursor) => apiPath("/v1/schedules/{scheduleId}/runs", { scheduleId, limit: PAGE, cursor }),
    EVERY_MS,
  );
  /** @type {Column<DueTime>[]} */
  const columns = [
    { label: "Due", show: ({ dueAt }) => timeOf(dueAt) },
    { label: "By", show: ({ trigger }) => (trigger === "cron" ? "its times" : "request") },
    {
      label: "Outcome",
      show: ({ outcome, error }) => html`${badge(outcome, outcome === "refused" ? "failed" : outcome)} ${error}`,
    },
    { label: "Run", show: ({ runId }) => runId && idOf(runId, who.may("receipts:read") && linkToRun(runId)) },
    { label: "Started", show: ({ startedAt }) => timeOf(startedAt) },
  ];
  return html`
    <section class="card" aria-labelledby="history-title">
      <h2 id="history-title">History</h2>
      ${listed(pages, {
        of: "the history",
        none: "It was not due yet.",
        show: (items) =>
          html`<${Table} caption="Due times, newest first" rowKey="dueAt" items=${items} columns=${columns} />`,
      })}
    </section>
  `;
}
