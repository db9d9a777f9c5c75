// Whether people are at the page.

/**
 * Call `listener` whenever the page is shown again, or reaches the network again: what it holds may be old by then.
 * Returns a function that stops this.
 * @param {() => void} listener
 */
export function whenBack(listener) {
  const onChange = () => {
    if (!document.hidden && navigator.onLine) listener();
  };
  document.addEventListener("visibilitychange", onChange);
  addEventListener("online", onChange);
  return () => {
    document.removeEventListener("visibilitychange", onChange);
    removeEventListener("online", onChange);
  };
}
