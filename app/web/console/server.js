// The health of the server, and for operators the processes and the queue of the fleet.

/** @import { Column } from "../parts/table.js" */
/** @import { Session } from "../shell.js" */

import { apiPath } from "../api.js";
import { html } from "../html.js";
import { loaded, useRequests } from "../parts/requests.js";
import { badge, idOf, Table, timeOf } from "../parts/table.js";

const EVERY_MS = 5000;
const GOOD = ["ok", "signed", "unsigned", "unused", "unknown"];

/** @typedef {Schemas["FleetWorkerResponse"]} Worker */
/** @typedef {Schemas["AccountQueueResponse"]} Queue */

/** @param {{who: Session}} props */
export function Server({ who }) {
  const health = useRequests([apiPath("/readyz"), apiPath("/healthz")], null, EVERY_MS);
  return html`
    <section class="card" aria-labelledby="health-title">
      <h2 id="health-title">Health</h2>
      ${loaded(health, {
        what: "the health of the server",
        show: ([ready, alive]) => html`
          <dl class="facts">
            <div><dt>Release</dt><dd>${alive.version}</dd></div>
            ${Object.entries(ready)
              .filter(([, value]) => value !== null)
              .map(
                ([name, value]) =>
                  html`<div><dt>${wordsOf(name)}</dt><dd>${typeof value === "string" && GOOD.includes(value) ? badge(value, "succeeded") : badge(String(value), "failed")}</dd></div>`,
              )}
          </dl>
        `,
      })}
    </section>
    ${who.may("admin") && html`<${Fleet} />`}
  `;
}

/** @param {string} name like `readDatabase` */
function wordsOf(name) {
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return words[0].toUpperCase() + words.slice(1);
}

/** @type {Column<Worker>[]} */
const WORKER_COLUMNS = [
  { label: "Process", show: ({ processId }) => idOf(processId) },
  { label: "Role", show: ({ role }) => role },
  { label: "Release", show: ({ version }) => version },
  { label: "State", show: ({ state, isAlive }) => badge(state, isAlive ? "succeeded" : "failed") },
  { label: "Places", isNumber: true, show: ({ places }) => places },
  { label: "Running", isNumber: true, show: ({ running }) => running },
  { label: "CLI processes", show: ({ agents }) => agentsOf(agents) },
  { label: "Last heartbeat", show: ({ lastHeartbeatAt }) => timeOf(lastHeartbeatAt) },
  { label: "Started", show: ({ startedAt }) => timeOf(startedAt) },
];

/** @type {Column<Queue>[]} */
const QUEUE_COLUMNS = [
  { label: "Account", show: ({ account }) => account },
  { label: "Ready", isNumber: true, show: ({ ready }) => ready },
  { label: "Held", isNumber: true, show: ({ held }) => held },
  { label: "Running", isNumber: true, show: ({ running }) => running },
  { label: "Waiting for a person", isNumber: true, show: ({ waiting }) => waiting },
  {
    label: "Oldest ready",
    isNumber: true,
    show: ({ oldestReadySeconds: oldest }) => (oldest === null ? "–" : `${Math.round(oldest)} s`),
  },
];

function Fleet() {
  return loaded(useRequests([apiPath("/v1/fleet")], null, EVERY_MS), {
    what: "the fleet",
    show: ([{ workers, totals, accounts }]) => html`
      <section class="card" aria-labelledby="fleet-title">
        <h2 id="fleet-title">Processes</h2>
        <dl class="facts">
          <div><dt>Places</dt><dd>${totals.places}, ${totals.placesFree} free</dd></div>
          <div><dt>Running</dt><dd>${totals.runsRunning}</dd></div>
          <div><dt>Waiting for a person</dt><dd>${totals.runsWaiting}</dd></div>
          <div><dt>Ready</dt><dd>${totals.runsReady}${totals.oldestReadySeconds !== null && `, the oldest since ${Math.round(totals.oldestReadySeconds)} s`}</dd></div>
          <div><dt>Held</dt><dd>${totals.runsHeld.turn} for a turn, ${totals.runsHeld.limit} at a limit, ${totals.runsHeld.startTime} until their time</dd></div>
        </dl>
        <${Table} caption="Processes" rowKey="processId" items=${workers} columns=${WORKER_COLUMNS} />
      </section>
      ${
        accounts.length > 0 &&
        html`<section class="card" aria-labelledby="queue-title">
        <h2 id="queue-title">Unfinished runs by account</h2>
        <${Table} caption="Unfinished runs by account" rowKey="accountId" items=${accounts} columns=${QUEUE_COLUMNS} />
      </section>`
      }
    `,
  });
}

/** The CLI processes of a worker by what they do. @param {Worker["agents"]} agents */
function agentsOf(agents) {
  if (agents === null) return "none";
  const states = /** @type {const} */ (["busy", "parked", "ready", "starting"]);
  return states
    .filter((state) => state !== "starting" || agents.starting > 0)
    .map((state) => `${agents[state]} ${state}`)
    .join(", ");
}
