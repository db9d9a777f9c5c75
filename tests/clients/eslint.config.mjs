// Lint rules of the pages in `app/web` and of the programs here. `tsc` reports undefined names and unused imports.
import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["app/web/vendor/**", "**/*.d.ts"] },
  js.configs.recommended,
  {
    rules: {
      eqeqeq: "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": ["error", { destructuring: "all" }],
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
    },
  },
  { files: ["app/web/**"], languageOptions: { globals: globals.browser } },
  { files: ["tests/clients/*.mjs", "tests/frontends/*.mjs"], languageOptions: { globals: globals.node } },
];
