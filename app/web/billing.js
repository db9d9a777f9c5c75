// The billing page: an overview of charges.

/** @import { Session } from "./shell.js" */

import { NotAllowed } from "./billing/not_allowed.js";
import { Overview } from "./billing/overview.js";
import { useView } from "./billing/view.js";
import { html } from "./html.js";
import { startPage } from "./shell.js";

startPage({ name: "billing", Page: Billing });

/** @param {{who: Session}} props */
function Billing({ who }) {
  const [view, show] = useView();
  if (!who.may("receipts:read")) return html`<${NotAllowed} account=${who.account} />`;
  return html`<${Overview} view=${view} show=${show} who=${who} />`;
}
