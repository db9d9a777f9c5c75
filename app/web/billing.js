// The billing page: an overview of charges, or one run.

/** @import { Session } from "./shell.js" */

import { Overview } from "./billing/overview.js";
import { RunPage } from "./billing/run_page.js";
import { useView } from "./billing/view.js";
import { html } from "./html.js";
import { startPage } from "./shell.js";

startPage({ name: "billing", Page: Billing });

/** @param {{who: Session}} props */
function Billing({ who }) {
  const [view, show] = useView();
  if (!who.may("receipts:read")) return html`<${NotAllowed} account=${who.account} />`;
  if (view.run !== "") return html`<${RunPage} key=${view.run} runId=${view.run} who=${who} view=${view} />`;
  return html`<${Overview} view=${view} show=${show} who=${who} />`;
}

/** @param {{account: string}} props */
function NotAllowed({ account }) {
  return html`
    <main id="main" class="page" tabindex="-1">
      <h1>Billing</h1>
      <div class="card empty">
        <h2>This API key may not see what was spent</h2>
        <p>
          It lacks the scope <code>receipts:read</code>. Sign out, and sign in with a key that has it; an operator makes one with
        </p>
        <p><code>runtally keys create --account ${account} --scope receipts:read --scope runs:read</code></p>
      </div>
    </main>
  `;
}
