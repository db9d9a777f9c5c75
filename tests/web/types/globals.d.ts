// Types of the API for the pages, from the types that `make web` generates from the OpenAPI document.

import type { components, paths, MessageId as IdInFiles } from "./api";

declare const template: unique symbol;

/** The names of the parameters in a path: `runId` of `/v1/runs/{runId}`. */
type NamesIn<Path> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never;
/** The query parameters of all operations of a path. */
type QueryOf<Path extends keyof paths> = {
  [Name in Method]: paths[Path][Name] extends { parameters: { query?: infer Query } } ? NonNullable<Query> : never;
}[Method];
type KeysOf<Union> = Union extends unknown ? keyof Union : never;
type ValueOf<Union, Name extends PropertyKey> = Union extends { [Key in Name]?: infer Value } ? Value : never;
/** What requires or accepts a body has one. */
type RequestOf<Operation> = Operation extends { requestBody?: infer Body } ? NonNullable<Body> : never;
type Success<Responses> = Responses[keyof Responses & (200 | 201 | 202 | 204)];
type JsonOf<Response> = Response extends { content: { "application/json": infer Body } } ? Body : null;

declare global {
  type Schemas = components["schemas"];
  type ClientEvent = Schemas["ClientEvent"];
  type Receipt = Schemas["ReceiptResponse"];
  /** The id of a message of the pages. */
  type MessageId = IdInFiles;
  type FieldProblem = Schemas["FieldProblem"];
  type UsageReport = Schemas["UsageReportResponse"];

  /** A path of the OpenAPI document. */
  type ApiPath = keyof paths;
  type Method = "get" | "post" | "put" | "patch" | "delete";
  /** A URL below the page's base, made by `apiPath` from this path of the document. */
  type PathOf<Path extends ApiPath> = string & { readonly [template]: Path };
  type ParametersOf<Path extends ApiPath> = { [Name in NamesIn<Path>]: string } & {
    [Name in KeysOf<QueryOf<Path>>]?: ValueOf<QueryOf<Path>, Name> | "" | null;
  };
  /** The JSON of a successful response, null without a body. */
  type ResponseOf<Path extends ApiPath, Name extends Method> = paths[Path][Name] extends { responses: infer Responses }
    ? JsonOf<Success<Responses>>
    : never;
  type BodyOf<Path extends ApiPath, Name extends "post" | "put" | "patch" = "post"> = [
    RequestOf<paths[Path][Name]>,
  ] extends [never]
    ? undefined
    : RequestOf<paths[Path][Name]> extends { content: { "application/json": infer Body } }
      ? Body | (paths[Path][Name] extends { requestBody: unknown } ? never : undefined)
      : undefined;

  interface Window {
    Runtally: EventTarget & {
      embed: (options: import("../../../app/web/embed.js").EmbedOptions) => void;
      open: () => void;
      close: () => void;
      destroy: () => void;
    };
    katex: typeof import("katex").default;
    SwaggerUIBundle?: (options: { url: string; dom_id: string; deepLinking: boolean; validatorUrl: null }) => void;
  }
}
