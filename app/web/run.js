// The billing page of one run.

/** @import { Session } from "./shell.js" */

import { NotAllowed } from "./billing/not_allowed.js";
import { RunPage } from "./billing/run_page.js";
import { useView } from "./billing/view.js";
import { html } from "./html.js";
import { startPage } from "./shell.js";

startPage({ name: "billing", Page: Run });

/** @param {{who: Session}} props */
function Run({ who }) {
  const [view] = useView();
  if (!who.may("receipts:read")) return html`<${NotAllowed} account=${who.account} />`;
  return html`<${RunPage} key=${view.run} runId=${view.run} who=${who} view=${view} />`;
}
