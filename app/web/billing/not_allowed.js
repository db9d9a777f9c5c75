// What is shown instead of a bill to those who may not see it.

import { html } from "../html.js";

/** @param {{account: string}} props */
export function NotAllowed({ account }) {
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
