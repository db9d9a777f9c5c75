// Preact with htm: components are written as html`…` templates.

import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export const html = htm.bind(h);
export { Component, render } from "./vendor/preact.js";
export * from "./vendor/preact-hooks.js";
