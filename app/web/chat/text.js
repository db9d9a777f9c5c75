// Texts of any length: growing Markdown, and plain text.

import { Component, html, useLayoutEffect, useRef, useState } from "../html.js";
import { t } from "../languages.js";
import { MAX_TEXT, marksIn, complete, framed, readable, readableJson, rendered, split } from "./markdown.js";
import { moreOf } from "./messages.js";

const SHOWN_AT_ONCE = 20_000;
/** How much is drawn in one go; the page reacts in between. */
const MARKS_AT_ONCE = 1_000;
const BLOCKS_AT_ONCE = 20;
/** Paper has no later. */
let isPrinting = false;
addEventListener("beforeprint", () => (isPrinting = true));
addEventListener("afterprint", () => (isPrinting = false));

/** @typedef {{text: string, open: boolean}} ProseProps */

/**
 * Markdown that may still grow (`open`): complete blocks are drawn once, a few at a time if many arrive at once;
 * only the last one is drawn again.
 * @extends {Component<ProseProps>}
 */
export class Prose extends Component {
  /** @param {ProseProps} props */
  constructor(props) {
    super(props);
    /** @type {string[]} */
    this.blocks = [];
    this.tail = "";
    this.parsed = "";
    /** How many blocks may be drawn. */
    this.drawn = 0;
    this.frame = 0;
  }

  reset() {
    this.drawn = 0;
    this.blocks = [];
    this.tail = "";
    this.parsed = "";
  }

  /** @param {string} text */
  append(text) {
    if (!text.startsWith(this.parsed)) this.reset();
    const { closed, tail } = split((this.tail + text.slice(this.parsed.length)).replaceAll("\r\n", "\n"));
    this.blocks.push(...closed);
    this.tail = tail;
    this.parsed = text;
  }

  /** Let some more blocks be drawn, and the rest later. */
  advance() {
    const limit = this.drawn + BLOCKS_AT_ONCE;
    let marks = 0;
    while (this.drawn < this.blocks.length && (isPrinting || (this.drawn < limit && marks < MARKS_AT_ONCE))) {
      marks += marksIn(this.blocks[this.drawn]);
      this.drawn += 1;
    }
    if (this.drawn === this.blocks.length || this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.forceUpdate();
    });
  }

  componentWillUnmount() {
    cancelAnimationFrame(this.frame);
  }

  /** @param {ProseProps} next */
  shouldComponentUpdate({ text, open }) {
    return text !== this.props.text || open !== this.props.open;
  }

  /** @param {ProseProps} props */
  render({ text, open }) {
    this.append(text.slice(0, MAX_TEXT));
    this.advance();
    const isDrawn = this.drawn === this.blocks.length;
    const rest = isDrawn && text.slice(MAX_TEXT);
    return html`
      <div class="prose">
        ${[...this.blocks.slice(0, this.drawn), ...(isDrawn ? [this.tail] : [])].map(
          (source, index) => html`
            <${Block} key=${index} source=${source} isComplete=${!open || index < this.blocks.length} />
          `,
        )}
        ${rest && html`<${Plain} text=${rest} whole=${text} shown=${0} />`}
      </div>
    `;
  }
}

/** @typedef {{source: string, isComplete: boolean}} BlockProps */

/** @extends {Component<BlockProps>} */
class Block extends Component {
  /** @param {BlockProps} next */
  shouldComponentUpdate({ source, isComplete }) {
    return source !== this.props.source || isComplete !== this.props.isComplete;
  }

  /** @param {BlockProps} props */
  render({ source, isComplete }) {
    const fragment = rendered(source);
    return fragment === null
      ? html`<${Plain} text=${source} />`
      : html`<${Elements} fragment=${fragment} isComplete=${isComplete} />`;
  }
}

/** @param {{fragment: DocumentFragment, isComplete: boolean}} props */
function Elements({ fragment, isComplete }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  useLayoutEffect(() => {
    if (place.current === null) return;
    place.current.replaceChildren(framed(fragment));
    if (isComplete) complete(place.current);
  }, [fragment]);
  return html`<div class="block" dir="auto" ref=${place}></div>`;
}

/**
 * Plain text, shown in parts: a line of millions of characters would block the page.
 * @param {{text: string, whole?: string, shown?: number, mono?: boolean}} props
 */
export function Plain({ text, whole = text, shown: first = SHOWN_AT_ONCE, mono = false }) {
  const [shown, setShown] = useState(first);
  const left = text.length - shown;
  return html`
    ${shown > 0 && html`<div class=${mono ? "plain plain-mono" : "plain"} dir=${mono ? "ltr" : "auto"}>${readable(text.slice(0, shown))}</div>`}
    ${
      left > 0 &&
      html`
      <p class="more">
        <span class="muted">${moreOf(left)}</span>
        <button type="button" class="button button-small" onClick=${() => setShown(shown + SHOWN_AT_ONCE)}>
          ${t("show-more")}
        </button>
        <button type="button" class="button button-small" onClick=${() => download(whole)}>
          ${t("download-text")}
        </button>
      </p>
    `
    }
  `;
}

/**
 * A JSON value.
 * @param {{value: unknown, label: string}} props
 */
export function Value({ value, label }) {
  const text = typeof value === "string" ? value : readableJson(value);
  return html`
    <div class="value" tabindex="0" role="group" aria-label=${label}><${Plain} text=${text} mono /></div>
  `;
}

/** @param {string} text */
function download(text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  link.download = "text.txt";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
