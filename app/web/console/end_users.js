// What is stored about an end user: downloaded, or erased.

/** @import { Session } from "../shell.js" */
/** @import { Query, Show } from "./view.js" */

import { apiPath, apiUrl, remove } from "../api.js";
import { html } from "../html.js";
import { Action } from "../parts/action.js";
import { FilterFields } from "../parts/filter_fields.js";
import { linkTo } from "./view.js";

/** @param {{who: Session, query: Query, show: Show}} props */
export function EndUsers({ who, query, show }) {
  const { endUser = "" } = query;
  return html`
    <${FilterFields} filters=${[{ name: "endUser", label: "End user", placeholder: "as runs name them" }]} values=${query} choose=${show} />
    ${endUser && html`<${OneEndUser} key=${endUser} who=${who} endUser=${endUser} />`}
  `;
}

/** @param {{who: Session, endUser: string}} props */
function OneEndUser({ who, endUser }) {
  return html`
    <section class="card" aria-labelledby="end-user-title">
      <h2 id="end-user-title">${endUser}</h2>
      <div class="row">
        <a class="button button-small" href=${linkTo({ view: "runs", endUser })}>Their runs</a>
        <a class="button button-small" href=${apiUrl(apiPath("/v1/exports/end-users/{endUser}", { endUser }))} download="end-user.zip">Download all of it</a>
        ${
          who.may("runs:write") &&
          html`<${Action}
            label="Erase"
            about=${endUser}
            title=${`Erase ${endUser}?`}
            words="Their runs are cancelled, and all that was said in them is deleted wherever it is kept: requests, answers, events, files and conversations. Receipts keep their numbers, with a hash in place of the name. This cannot be undone."
            submit="Erase the end user"
            isDestructive
            send=${() => remove(apiPath("/v1/end-users/{endUser}", { endUser }))}
            result=${() => html`<p>It has begun, and goes on by itself until nothing is left.</p>`}
            done=${() => {}}
          />`
        }
      </div>
    </section>
  `;
}
