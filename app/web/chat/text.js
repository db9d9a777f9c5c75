// Texts of any length: Markdown that grows, and what is shown as it is.

import { Component, html, useLayoutEffect, useRef, useState } from "../html.js";
import { LONGEST_TEXT, rendered, split } from "./markdown.js";
import { sizeOf } from "./words.js";

const SHOWN_AT_ONCE = 20_000;

/** Markdown that may still grow: blocks that are complete are drawn once, only the last one again. */
export class Prose extends Component {
  constructor(props) {
    super(props);
    this.forget();
  }

  forget() {
    this.blocks = [];
    this.tail = "";
    this.read = "";
  }

  take(text) {
    if (!text.startsWith(this.read)) this.forget();
    const { closed, tail } = split((this.tail + text.slice(this.read.length)).replaceAll("\r\n", "\n"));
    this.blocks.push(...closed);
    this.tail = tail;
    this.read = text;
  }

  shouldComponentUpdate({ text }) {
    return text !== this.props.text;
  }

  render({ text }) {
    this.take(text.slice(0, LONGEST_TEXT));
    const rest = text.slice(LONGEST_TEXT);
    return html`
      <div class="prose">
        ${[...this.blocks, this.tail].map((source, index) => html`<${Block} key=${index} source=${source} />`)}
        ${rest && html`<${Plain} text=${rest} whole=${text} shown=${0} />`}
      </div>
    `;
  }
}

class Block extends Component {
  shouldComponentUpdate({ source }) {
    return source !== this.props.source;
  }

  render({ source }) {
    const fragment = rendered(source);
    return fragment === null
      ? html`<${Plain} text=${source} />`
      : html`<${Elements} fragment=${fragment} />`;
  }
}

function Elements({ fragment }) {
  const place = useRef(null);
  useLayoutEffect(() => place.current.replaceChildren(fragment), [fragment]);
  return html`<div class="block" ref=${place}></div>`;
}

/** Text as it is, a part of it at a time: a line of millions of characters must not stop the page. */
export function Plain({ text, whole = text, shown: first = SHOWN_AT_ONCE, mono = false }) {
  const [shown, setShown] = useState(first);
  const left = text.length - shown;
  return html`
    ${shown > 0 && html`<div class=${mono ? "plain plain-mono" : "plain"}>${text.slice(0, shown)}</div>`}
    ${left > 0 &&
    html`
      <p class="more">
        <span class="muted">${sizeOf(left)} more</span>
        <button type="button" class="button button-small" onClick=${() => setShown(shown + SHOWN_AT_ONCE)}>
          Show more
        </button>
        <button type="button" class="button button-small" onClick=${() => download(whole)}>
          Download the whole text
        </button>
      </p>
    `}
  `;
}

/** A value of JSON, for people. */
export function Value({ value, label }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return html`
    <div class="value" tabindex="0" role="group" aria-label=${label}><${Plain} text=${text} mono /></div>
  `;
}

function download(text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  link.download = "text.txt";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
