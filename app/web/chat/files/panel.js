// The files that a conversation keeps: a dialog that lists, shows and downloads them.

import { apiPath, apiUrl } from "../../api.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { t } from "../../languages.js";
import { bytesOf } from "../../parts/format.js";
import { loaded, useRequests } from "../../parts/requests.js";
import { readable } from "../markdown.js";
import { Diff, linesOf } from "./diff.js";
import { Preview } from "./preview.js";

/** @typedef {Schemas["RunFileResponse"]} KeptFile */
/** @typedef {Schemas["FileChange"]} Change */

/** Nothing is requested before it is pressed. @param {{stateKey: string}} props */
export function FilesButton({ stateKey }) {
  const [isOpen, setOpen] = useState(false);
  return html`
    <button type="button" class="button button-plain button-small" onClick=${() => setOpen(true)}>${t("files")}</button>
    ${isOpen && html`<${Panel} stateKey=${stateKey} close=${() => setOpen(false)} />`}
  `;
}

/** @param {{stateKey: string, close: () => void}} props */
function Panel({ stateKey, close }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => dialog.current?.showModal(), []);
  const kept = useRequests([apiPath("/v1/sessions/{stateKey}/workspace", { stateKey })], null);
  return html`
    <dialog ref=${dialog} class="card kept-files" onClose=${close} aria-labelledby="files-title">
      <header class="row">
        <h2 id="files-title">${t("files-of-conversation")}</h2>
        <button type="button" class="button button-plain button-small" onClick=${() => dialog.current?.close()}>${t("close")}</button>
      </header>
      ${loaded(kept, {
        what: t("the-files"),
        show: ([{ runId, items, truncated }]) =>
          runId === null
            ? html`<p class="hint">${t("no-files-yet")}</p>`
            : html`<${Kept} runId=${runId} files=${items} truncated=${truncated} />`,
      })}
    </dialog>
  `;
}

/** `runId` has left the files. @param {{runId: string, files: KeptFile[], truncated: boolean}} props */
function Kept({ runId, files, truncated }) {
  const run = useRequests([apiPath("/v1/runs/{runId}", { runId })], null);
  return loaded(run, {
    what: t("the-changes"),
    show: ([{ final }]) => {
      const changes = final?.fileChanges?.files ?? [];
      const changeOf = new Map(changes.map((change) => [change.path, change]));
      const deleted = changes.filter(({ change }) => change === "deleted");
      return html`
        ${
          files.length > 0
            ? html`<a class="button button-small" download href=${apiUrl(apiPath("/v1/runs/{runId}/archive", { runId }))}>${t("download-all")}</a>`
            : html`<p class="hint">${t("no-files-now")}</p>`
        }
        <ul>
          ${files.map((file) => html`<${File} key=${file.path} runId=${runId} file=${file} change=${changeOf.get(file.path)} />`)}
          ${deleted.map((change) => html`<${Changed} key=${change.path} path=${change.path} hint=${t("change-deleted")} diff=${change.diff} />`)}
        </ul>
        ${truncated && html`<p class="hint">${t("too-many-files")}</p>`}
        ${changes.length > 0 && html`<p class="hint">${t("compared-with")}</p>`}
      `;
    },
  });
}

/** @param {{runId: string, file: KeptFile, change: Change | undefined}} props */
function File({ runId, file, change }) {
  const { path, bytes } = file;
  return html`
    <${Changed} path=${path} hint=${[bytesOf(bytes), change && t(`change-${change.change}`)].filter(Boolean).join(" · ")} diff=${change?.diff}>
      <${Preview} runId=${runId} file=${file} />
      <a class="button button-small" download href=${apiUrl(apiPath("/v1/runs/{runId}/files/{path}", { runId, path }))}>
        ${t("download")}<span class="visually-hidden"> ${readable(path)}</span>
      </a>
    <//>
  `;
}

/**
 * A file, and when it is opened how it was changed, before what else is shown of it.
 * @param {{path: string, hint: string, diff: string | null | undefined, children?: import("../../vendor/preact.js").ComponentChildren}} props
 */
export function Changed({ path, hint, diff, children }) {
  const [isOpen, setOpen] = useState(false);
  const name = html`<span class="plain-mono">${readable(path)}</span> <span class="hint">${hint}</span>`;
  if (!diff && !children) return html`<li>${name}</li>`;
  return html`
    <li>
      <details onToggle=${(/** @type {{currentTarget: HTMLDetailsElement}} */ event) => setOpen(event.currentTarget.open)}>
        <summary>${name}</summary>
        ${
          isOpen &&
          html`
            <div class="file-content">
              ${diff && html`<div class="value" tabindex="0" role="group" aria-label=${t("change")}><${Diff} lines=${linesOf(diff)} /></div>`}
              ${children}
            </div>
          `
        }
      </details>
    </li>
  `;
}
