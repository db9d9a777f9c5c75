// The result of a call that only the model has got, for those who may see it: the output of a command, a file.

/** @import { CallResult } from "../runs/evidence.js" */

import { ApiError } from "../api.js";
import { html, useState } from "../html.js";
import { t } from "../languages.js";
import { apiProblem } from "./messages.js";
import { Value } from "./text.js";

const COMMAND = "Bash";

/** @param {{name: string, find: () => Promise<CallResult | null>}} props */
export function ModelResult({ name, find }) {
  const [found, setFound] = useState(/** @type {CallResult | null} */ (null));
  const [problem, setProblem] = useState("");
  const show = async () => {
    setProblem("");
    try {
      const result = await find();
      setFound(result);
      if (result === null) setProblem(t("not-stored"));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(apiProblem(error));
    }
  };
  if (found === null)
    return html`
      <div class="row">
        <button type="button" class="button button-small" onClick=${show}>
          ${t(name === COMMAND ? "show-output" : "show-model-result")}
        </button>
        ${problem && html`<span class="problem" role="alert">${problem}</span>`}
      </div>
    `;
  const title = name === COMMAND ? outputTitle(found) : t("model-result");
  return html`
    <h3>${title}</h3>
    ${found.text.trim() ? html`<${Value} value=${found.text} label=${t("output")} />` : html`<p class="hint">${t("nothing")}</p>`}
  `;
}

/** @param {CallResult} result */
function outputTitle({ isError, exitCode }) {
  const code = exitCode ?? (isError ? null : 0);
  return code === null ? t("output") : t("output-exit", { code });
}
