import { createRoot } from "react-dom/client";

/** What the page's address says: the server, the key, the graph and the conversation. */
export const given = Object.fromEntries(new URLSearchParams(location.search));

export const headers = {
  Authorization: `Bearer ${given.key}`,
  ...(given.release && { "X-AI-SDK-Version": given.release }),
};

/** Render; on a second device with the conversation as the server has it. */
export async function mount(App, stored) {
  const messages = "load" in given ? await read(stored) : undefined;
  createRoot(document.getElementById("root")).render(<App messages={messages} />);
}

async function read(path) {
  const response = await fetch(given.url + path, { headers });
  if (!response.ok) throw new Error(await response.text());
  const body = await response.json();
  return body.messages ?? body;
}
