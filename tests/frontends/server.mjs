// Serves the built pages and CopilotKit's runtime: node server.mjs PAGES
// Prints its port; reads one line, {"url", "graphs"}; ends with its standard input.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client";
import { CopilotRuntime, InMemoryAgentRunner } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";

const [pages] = process.argv.slice(2);
const TYPES = { ".js": "text/javascript", ".css": "text/css" };
const lines = createInterface({ input: process.stdin });
lines.on("close", () => process.exit(0));

const server = createServer((request, response) => {
  answer(request, response).catch((error) => response.writeHead(404).end(String(error)));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));

const { url, graphs } = JSON.parse(await new Promise((resolve) => lines.once("line", resolve)));
// The runtime passes the page's Authorization header on to its agents.
const agents = Object.fromEntries(
  Object.entries(graphs).map(([name, graph]) => [name, new HttpAgent({ url: `${url}/v1/ag-ui/${graph}` })]),
);
const runtime = new CopilotRuntime({ agents, runner: new InMemoryAgentRunner() });
const copilotKit = createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" });

async function answer(request, response) {
  const name = new URL(request.url, "http://localhost").pathname.slice(1);
  if (name.startsWith("api/copilotkit")) return copilotKit(request, response);
  if (extname(name) in TYPES) {
    const content = await readFile(join(pages, name));
    return response.writeHead(200, { "content-type": TYPES[extname(name)] }).end(content);
  }
  const head = `<!doctype html><link rel="icon" href="data:,"><link rel="stylesheet" href="copilotkit.css">`;
  const body = `<div id="root"></div><script type="module" src="/${name}.js"></script>`;
  return response.writeHead(200, { "content-type": "text/html" }).end(head + body);
}
