// Lints the OpenAPI document on standard input; prints the problems as JSON.
import { text } from "node:stream/consumers";

import { createConfig, lintFromString } from "@redocly/openapi-core";
import spectral from "@stoplight/spectral-core";
import parsers from "@stoplight/spectral-parsers";
import { oas } from "@stoplight/spectral-rulesets";

const source = await text(process.stdin);
const found = [];

const recommended = await createConfig({ extends: ["recommended"] });
for (const { ruleId, message, location } of await lintFromString({ source, config: recommended })) {
  found.push({ rule: ruleId, message, where: location[0]?.pointer });
}

const linter = new spectral.Spectral();
linter.setRuleset({ extends: [oas] });
const document = new spectral.Document(source, parsers.Json, "openapi.json");
for (const { code, message, path } of await linter.run(document)) {
  found.push({ rule: code, message, where: path.join("/") });
}

console.log(JSON.stringify(found));
