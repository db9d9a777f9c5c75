// Compiles schemas and checks values as the CLI does; standard input: {name: {schema, values}}.
import { readFileSync } from "node:fs";
import { Ajv } from "ajv";

const ajv = new Ajv({ allErrors: true, validateFormats: false, multipleOfPrecision: 6, logger: false });
const refused = [];
for (const [name, { schema, values }] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  try {
    if (!ajv.validateSchema(schema)) throw new Error(ajv.errorsText());
    const matches = ajv.compile(schema);
    for (const value of values) {
      if (!matches(value)) refused.push([name, JSON.stringify(value), ajv.errorsText(matches.errors)]);
    }
    ajv.removeSchema(schema);
  } catch (error) {
    refused.push([name, "", String(error)]);
  }
}
console.log(JSON.stringify(refused));
