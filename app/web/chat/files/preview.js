// What is in a file: text with its colours, or an image.

import { ApiError, apiPath, getFile } from "../../api.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../html.js";
import { t } from "../../languages.js";
import { frameCode, highlight } from "../answers/code.js";
import { MAX_BLOCK, readable } from "../markdown.js";
import { apiProblem } from "../messages.js";
import { Plain } from "../text.js";

const MOST_BYTES = 1_000_000;
const IMAGE = /^image\/(?:png|jpeg|gif|webp)$/;

/** What is shown: a text, the address of an image, or why there is neither. @typedef {{text: string} | {image: string} | {hint: string}} Shown */

/** @param {{runId: string, file: Schemas["RunFileResponse"]}} props */
export function Preview({ runId, file }) {
  const [shown, setShown] = useState(/** @type {Shown | null} */ (null));
  useEffect(() => {
    let isCurrent = true;
    setShown(null);
    read(runId, file).then((found) => isCurrent && setShown(found));
    return () => void (isCurrent = false);
  }, [runId, file.path]);
  if (shown === null) return html`<p class="hint" role="status">${t("loading")}</p>`;
  if ("hint" in shown) return html`<p class="hint">${shown.hint}</p>`;
  if ("image" in shown) return html`<img src=${shown.image} alt=${readable(file.path)} />`;
  return shown.text.length > MAX_BLOCK
    ? html`<div class="value" tabindex="0" role="group" aria-label=${t("content")}><${Plain} text=${shown.text} mono /></div>`
    : html`<${Code} text=${shown.text} language=${file.path.split(".").at(-1) ?? ""} />`;
}

/**
 * @param {string} runId
 * @param {Schemas["RunFileResponse"]} file
 * @returns {Promise<Shown>}
 */
async function read(runId, { path, bytes, mediaType }) {
  if (bytes > MOST_BYTES) return { hint: t("file-too-large") };
  try {
    const content = await getFile(apiPath("/v1/runs/{runId}/files/{path}", { runId, path }));
    if (IMAGE.test(mediaType)) return { image: await addressOf(content.slice(0, content.size, mediaType)) };
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(await content.arrayBuffer()) };
  } catch (error) {
    if (error instanceof ApiError) return { hint: apiProblem(error) };
    if (error instanceof TypeError) return { hint: t("file-no-text") };
    throw error;
  }
}

/**
 * The content in an address, which is all the page may show as an image.
 * @param {Blob} content
 * @returns {Promise<string>}
 */
function addressOf(content) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.readAsDataURL(content);
  });
}

/** @param {{text: string, language: string}} props */
function Code({ text, language }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  useLayoutEffect(() => {
    const pre = document.createElement("pre");
    const code = document.createElement("code");
    code.className = `language-${language}`;
    code.textContent = readable(text);
    pre.append(code);
    place.current?.replaceChildren(pre);
    frameCode(pre);
    highlight(pre);
  }, [text, language]);
  return html`<div ref=${place}></div>`;
}
