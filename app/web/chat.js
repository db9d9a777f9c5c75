// The chat page.

import { html } from "./html.js";
import { startPage } from "./shell.js";

startPage({
  name: "chat",
  Page: ({ who }) => html`<main id="main" class="page" tabindex="-1"><h1>Chat</h1><p>${who.account}</p></main>`,
});
