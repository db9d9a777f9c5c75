// Which processes have executed a run, for operators.

/** @import { Column } from "../../parts/table.js" */

import { apiPath } from "../../api.js";
import { html } from "../../html.js";
import { formatTime } from "../../parts/format.js";
import { loaded, useRequests } from "../../parts/requests.js";
import { idOf, Table } from "../../parts/table.js";

/** @typedef {Schemas["ExecutedAttemptResponse"]} Attempt */

/** @param {{run: Schemas["RunResponse"]}} props */
export function Attempts({ run }) {
  const fleet = useRequests([apiPath("/v1/fleet/runs/{runId}", { runId: run.runId })], null);
  /** @type {Column<Attempt>[]} */
  const columns = [
    { label: "Attempt", show: ({ attempt }) => attempt + 1 },
    { label: "Process", show: ({ processId }) => (processId ? idOf(processId) : "not known") },
    { label: "Ended", show: (attempt) => endOf(attempt, run) },
  ];
  return html`
    <section class="card" aria-labelledby="attempts-title">
      <h2 id="attempts-title">Attempts and their processes</h2>
      ${loaded(fleet, {
        what: "the attempts of this run",
        show: ([{ attempts }]) =>
          html`<${Table} caption="Attempts, the first one first" rowKey="attempt" items=${attempts} columns=${columns} />`,
      })}
    </section>
  `;
}

/** @param {Attempt} attempt @param {Schemas["RunResponse"]} run */
function endOf({ attempt, takenOverAt, handedOver }, { attempt: last, status }) {
  if (takenOverAt)
    return `${handedOver ? "its process stopped, and gave it to another" : "its process was lost"} at ${formatTime(takenOverAt)}`;
  return attempt === last ? status : "to wait for a person, or to begin again";
}
