// Preact with htm: components are written as html`…` templates.

import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export const html = htm.bind(h);
export { Component, render } from "./vendor/preact.js";
export * from "./vendor/preact-hooks.js";

/** @typedef {ReturnType<typeof html>} Html */

/**
 * A listener that calls `set` with the value of its field.
 * @param {(value: string) => void} set
 */
export function withValue(set) {
  return (/** @type {{currentTarget: {value: string}}} */ event) => set(event.currentTarget.value);
}
