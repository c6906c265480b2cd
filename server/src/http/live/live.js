// Reads the page anew every few seconds, and replaces only what changes by itself: a form that
// somebody fills in stays as it is. Stops while nobody looks.
"use strict";
const EVERY_MS = 3000;
async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const read = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = document.querySelector("[data-live]");
    const next = read.querySelector("[data-live]");
    const inside = now?.contains(document.activeElement) ?? false;
    if (next && !now) location.reload();
    else if (next && !inside && next.innerHTML !== now.innerHTML) now.replaceWith(next);
  } catch {
    // The server is away: what is shown stays, and the next attempt comes.
  }
}
setInterval(refresh, EVERY_MS);
