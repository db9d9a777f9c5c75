// Builds the pages and the server's runtime: node build.mjs TARGET

import { build } from "esbuild";

const [outdir] = process.argv.slice(2);
const pages = ["use_chat", "use_chat_tools", "assistant_ui_ai_sdk", "assistant_ui_ag_ui", "copilotkit"];
const browser = {
  outdir,
  bundle: true,
  format: "esm",
  splitting: true,
  platform: "browser",
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"' },
  loader: { ".woff": "empty", ".woff2": "empty", ".ttf": "empty" },
  // Diagrams and coloured code, which no story has.
  external: ["mermaid", "shiki", "shiki/*"],
  logLevel: "error",
};

await Promise.all([
  build({ ...browser, entryPoints: pages.map((page) => `pages/${page}.jsx`) }),
  ...[
    ["5", "2", ["use_chat", "use_chat_tools"]],
    ["6", "3", ["use_chat"]],
  ].map(([sdk, react, built]) =>
    build({
      ...browser,
      alias: { ai: `ai-${sdk}`, "@ai-sdk/react": `ai-sdk-react-${react}` },
      entryPoints: built.map((page) => ({ in: `pages/${page}.jsx`, out: `${page}_${sdk}` })),
    }),
  ),
]);
