// Files that are sent with the next message.

/** @import { Attached } from "../conversation.js" */
/** @import { DraftFile } from "./drafts.js" */

import { html, useEffect, useLayoutEffect, useRef, useState } from "../../html.js";
import { t } from "../../languages.js";
import { bytesOf } from "../../parts/format.js";
import { Button } from "../answers/actions.js";
import { keepFiles, keptFiles } from "./drafts.js";

/** What a request may have at most (docs/api/runs.md); the server tells about its other limits. */
const MAX_TOTAL_BYTES = 22 * 2 ** 20;
const MAX_TITLE = 255;
/** @type {AttachedFile[]} */
const NONE = [];

/**
 * `part` is null until the file has been read, of which `read` is the share.
 * @typedef {DraftFile & {id: number, read: number, problem: string}} AttachedFile
 */

/** @typedef {ReturnType<typeof useAttachments>} Attachments */

/**
 * The files of the next message, those that are kept under this name when another conversation is shown; null keeps none.
 * A message is `ready` once all have been read.
 * @param {string} conversation
 * @param {string | null} name
 */
export function useAttachments(conversation, name) {
  // A conversation gets another name when its first message is sent, before the files are removed.
  const [{ keptAs, files }, setHeld] = useState({ keptAs: /** @type {string | null} */ (null), files: NONE });
  const setFiles = (/** @type {(now: AttachedFile[]) => AttachedFile[]} */ next) =>
    setHeld((now) => ({ ...now, files: next(now.files) }));
  const count = useRef(0);
  useLayoutEffect(() => {
    const kept = keptFiles(name).map((each) => ({ ...each, id: count.current++, read: 1, problem: "" }));
    setHeld({ keptAs: name, files: kept });
  }, [conversation]);
  useEffect(() => {
    const read = files.filter(({ part }) => part);
    if (keptAs === null || keepFiles(keptAs, read)) return;
    const ask = (/** @type {Event} */ event) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [files]);
  const change = (/** @type {number} */ id, /** @type {Partial<AttachedFile>} */ changes) =>
    setFiles((now) => now.map((each) => (each.id === id ? { ...each, ...changes } : each)));

  const add = (/** @type {Iterable<File>} */ chosen) => {
    let total = files.reduce((sum, { file }) => sum + file.size, 0);
    const added = [...chosen].map((file) => {
      total += file.size;
      return { id: count.current++, file, part: null, read: 0, problem: problemOf(file, total) };
    });
    setFiles((now) => [...now, ...added]);
    for (const { id, file, problem } of added) {
      if (problem) continue;
      readPart(file, (read) => change(id, { read })).then(
        (part) => change(id, { part }),
        () => change(id, { problem: t("file-unreadable") }),
      );
    }
  };

  /** Show what the server refuses about files; false if that is nothing. @param {FieldProblem[]} problems */
  const refuse = (problems) => {
    const refused = problems.flatMap(({ field, message }) => {
      const file = files[Number(/(?:^|\.)content\.(\d+)/.exec(field)?.[1])];
      return file ? [{ id: file.id, problem: t("file-refused", { problem: message }) }] : [];
    });
    for (const { id, problem } of refused) change(id, { part: null, problem });
    return refused.length > 0;
  };

  return {
    files,
    ready: files.every(({ part }) => part !== null),
    add,
    refuse,
    remove: (/** @type {AttachedFile[]} */ those) =>
      setFiles((now) => now.filter(({ id }) => those.every((each) => each.id !== id))),
  };
}

/**
 * Take files that are dropped on an element; `isDropping` while they are over it.
 * @param {(files: Iterable<File>) => void} take
 */
export function useDrop(take) {
  const [isDropping, setDropping] = useState(false);
  return {
    isDropping,
    over: (/** @type {DragEvent} */ event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setDropping(true);
    },
    leave: (/** @type {DragEvent & {currentTarget: HTMLElement}} */ { currentTarget, relatedTarget }) => {
      if (!(relatedTarget instanceof Node && currentTarget.contains(relatedTarget))) setDropping(false);
    },
    drop: (/** @type {DragEvent} */ event) => {
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      setDropping(false);
      take(event.dataTransfer.files);
    },
  };
}

/** @param {{attachments: Attachments}} props */
export function AttachButton({ attachments: { add } }) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const onChange = (/** @type {{currentTarget: HTMLInputElement}} */ { currentTarget }) => {
    add(currentTarget.files ?? []);
    // The same file may be chosen again.
    currentTarget.value = "";
  };
  return html`
    <input ref=${input} type="file" multiple hidden aria-label=${t("files-to-attach")} onChange=${onChange} />
    <${Button} icon="attach" name=${t("attach-files")} onClick=${() => input.current?.click()} />
  `;
}

/** @param {{attachments: Attachments}} props */
export function AttachedFiles({ attachments: { files, remove } }) {
  if (files.length === 0) return null;
  return html`
    <ul class="attached" aria-label=${t("attached-files")}>
      ${files.map((each) => html`<${AttachedEntry} key=${each.id} attached=${each} remove=${() => remove([each])} />`)}
    </ul>
  `;
}

/** @param {{attached: AttachedFile, remove: () => void}} props */
function AttachedEntry({ attached: { file, part, read, problem }, remove }) {
  return html`
    <li data-bad=${Boolean(problem)}>
      ${part?.type === "image" && html`<img src=${`data:${file.type};base64,${part.data}`} alt="" />`}
      <span class="attached-name"><bdi>${file.name}</bdi></span>
      <span class="hint">${bytesOf(file.size)}</span>
      ${!part && !problem && html`<progress value=${read} aria-label=${t("reading-file", { name: file.name })} />`}
      ${problem && html`<span class="problem" role="alert">${problem}</span>`}
      <button type="button" class="button button-plain button-small" aria-label=${t("remove-file", { name: file.name })} onClick=${remove}>
        <span aria-hidden="true">×</span>
      </button>
    </li>
  `;
}

/** @param {File} file @param {number} total bytes of the message with it */
function problemOf(file, total) {
  if (file.size === 0) return t("file-empty");
  return total > MAX_TOTAL_BYTES ? t("files-too-large") : "";
}

/**
 * A file as a part of a message. What it is, its bytes say, which the server looks at.
 * @param {File} file
 * @param {(share: number) => void} onProgress
 * @returns {Promise<Attached["part"]>}
 */
function readPart(file, onProgress) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
    reader.onerror = () => reject(reader.error);
    reader.onload = () => {
      const url = String(reader.result);
      const data = url.slice(url.indexOf(",") + 1);
      const isImage = file.type.startsWith("image/");
      resolve(isImage ? { type: "image", data } : { type: "document", data, title: file.name.slice(0, MAX_TITLE) });
    };
    reader.readAsDataURL(file);
  });
}
