// Drawings on buttons.

import { html } from "../../html.js";

const PATHS = {
  copy: "M6 6V3.5h6.5V10H10M3.5 6H10v6.5H3.5z",
  again: "M12.5 8a4.5 4.5 0 1 1-1.4-3.2M12.5 2.5v2.7H9.8",
  edit: "M3 13l.6-2.6 6.9-6.9 2 2-6.9 6.9zM9.2 4.8l2 2",
  up: "M5 7v6H3V7zM5 7l2.4-4.5c.9 0 1.5.7 1.3 1.6L8.3 6.5h3.4c.8 0 1.4.7 1.2 1.5l-.9 4c-.1.6-.6 1-1.2 1H5",
  down: "M11 9V3h2v6zM11 9l-2.4 4.5c-.9 0-1.5-.7-1.3-1.6l.4-2.4H4.3c-.8 0-1.4-.7-1.2-1.5l.9-4c.1-.6.6-1 1.2-1H11",
  fork: "M5 3.5v9M5 9c0-2.5 6-1 6-3.5v-2M3.6 2h2.8v1.6H3.6zM9.6 2h2.8v1.6H9.6zM3.6 12.4h2.8V14H3.6z",
  attach: "M12.8 7.2l-5 5a2.8 2.8 0 0 1-4-4l5.4-5.4a1.9 1.9 0 0 1 2.7 2.7l-5 5a.9.9 0 0 1-1.3-1.3l4.3-4.3",
  details: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.5V11M8 5v.1",
};

/** @param {{name: keyof typeof PATHS}} props */
export function Icon({ name }) {
  return html`<svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
