// Reads the page anew every few seconds, and replaces what changes by itself. What somebody typed,
// where they are on the page and what they scrolled stays. Stops while nobody looks.
"use strict";
const EVERY_MS = 3000;
const STEPS = "a, button, input, [tabindex]";
let read_at = new Date();

// What of the page belongs to whoever looks at it.
function held(now) {
  const all = [...now.querySelectorAll(STEPS)];
  const typed = [...now.querySelectorAll("input[id]")].map((field) => [field.id, field.value]);
  const scrolled = [...now.querySelectorAll(".account-wide")].map((box) => box.scrollLeft);
  const at = all.indexOf(document.activeElement);
  // Rows change places, and each has a link of its own.
  return { at, link: all[at]?.getAttribute("href"), typed, scrolled };
}

function give_back(next, { at, link, typed, scrolled }) {
  for (const [id, value] of typed) {
    const field = next.querySelector(`#${CSS.escape(id)}`);
    if (field) field.value = value;
  }
  next.querySelectorAll(".account-wide").forEach((box, place) => {
    box.scrollLeft = scrolled[place] ?? 0;
  });
  const all = [...next.querySelectorAll(STEPS)];
  const same = all.find((one) => link && one.getAttribute("href") === link);
  if (at >= 0) (same ?? all[at])?.focus({ preventScroll: true });
}

function say(words) {
  const place = document.querySelector("[data-away]");
  if (!place) return;
  place.hidden = words === "";
  if (place.textContent !== words) place.textContent = words;
}

function as_of() {
  const two = (number) => String(number).padStart(2, "0");
  const what = document.querySelector("[data-live]") ? "These numbers are" : "This page is";
  return `${what} as of ${two(read_at.getHours())}:${two(read_at.getMinutes())}.`;
}

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    const read = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = document.querySelector("[data-live]");
    const next = read.querySelector("[data-live]");
    if (!answer.ok || (now && !next)) {
      say(`${as_of()} To see it as it is now, load it again.`);
      return;
    }
    read_at = new Date();
    say("");
    if (next && !now) location.reload();
    else if (next && next.innerHTML !== now.innerHTML) {
      const mine = held(now);
      now.replaceWith(next);
      give_back(next, mine);
    }
  } catch {
    say(`The server cannot be reached. ${as_of()}`);
  }
}
setInterval(refresh, EVERY_MS);
