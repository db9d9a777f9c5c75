// Who is signed in: asked for while the larger script of the page is still on its way.

/** @typedef {Schemas["BrowserSessionResponse"]} SessionResponse */

/** The session, null if there is none. @type {Promise<SessionResponse | null>} */
export const session = requested();
// The page shows it, once it is there.
session.catch(() => {});

async function requested() {
  const response = await fetch(new URL("v1/browser-session", document.baseURI));
  if (!response.ok) throw new Error(response.statusText);
  return response.status === 204 ? null : response.json();
}
