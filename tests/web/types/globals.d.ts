// Types of the API for the pages, generated from the OpenAPI document (`make web`).

import type { components } from "./api";

declare global {
  type Schemas = components["schemas"];
  type ClientEvent = Schemas["ClientEvent"];
  type Receipt = Schemas["ReceiptResponse"];
  type FieldProblem = Schemas["FieldProblem"];

  interface Window {
    SwaggerUIBundle?: (options: { url: string; dom_id: string; deepLinking: boolean }) => void;
  }
}
