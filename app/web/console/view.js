// What the console shows, kept in its URL: every view can be linked to and reloaded.

import { apiUrl } from "../api.js";
import { useEffect, useState } from "../html.js";

const PATH = "./console";

/** @typedef {Record<string, string>} Query the parameters of the URL; `view` names the view */
/** @typedef {(changes: Query) => void} Show */

/**
 * The parameters of the URL, and a function that changes some of them and adds a history entry.
 * Links to other views are followed without loading the page again.
 * @returns {[Query, Show]}
 */
export function useQuery() {
  const [query, setQuery] = useState(read);
  useEffect(() => {
    const onPopState = () => setQuery(read());
    const onClick = (/** @type {MouseEvent} */ event) => {
      const link = event.target instanceof Element ? event.target.closest("a") : null;
      const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
      if (!isPlain || link === null || link.hasAttribute("download")) return;
      if (link.origin !== location.origin || link.pathname !== new URL(apiUrl(PATH)).pathname) return;
      event.preventDefault();
      history.pushState(null, "", link.href);
      setQuery(read());
      scrollTo(0, 0);
      document.getElementById("main")?.focus();
    };
    addEventListener("popstate", onPopState);
    addEventListener("click", onClick);
    return () => {
      removeEventListener("popstate", onPopState);
      removeEventListener("click", onClick);
    };
  }, []);
  /** @type {Show} */
  const show = (changes) => {
    history.pushState(null, "", apiUrl(linkTo({ ...query, ...changes })));
    setQuery(read());
  };
  return [query, show];
}

/**
 * The link to a view; empty parameters are left out.
 * @param {Query} query
 */
export function linkTo(query) {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  return given.size > 0 ? `${PATH}?${given}` : PATH;
}

/** @returns {Query} */
function read() {
  return Object.fromEntries(new URLSearchParams(location.search));
}
