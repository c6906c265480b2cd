// What a plain page does beyond HTML: it shows which page this is, and keeps what somebody typed.
"use strict";

// The row of pages may be wider than the screen.
document
  .querySelector(".account-nav [aria-current]")
  ?.scrollIntoView({ block: "nearest", inline: "center" });

// A text that is typed and not kept yet stays in this tab: the browser's Back, a link, or a session
// that ended, would lose it. Its name says whose it is. Where a browser keeps nothing, nothing is
// lost that was not lost before.
function draft(field) {
  const { draft: name, kept } = field.dataset;
  const note = document.querySelector("[data-drafted]");
  const same = (a, b) => a.trim() === b.trim();
  const keep = () => {
    if (same(field.value, kept)) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, field.value);
  };
  const typed = sessionStorage.getItem(name);
  if (typed !== null && same(field.value, kept) && !same(typed, kept)) {
    field.value = typed;
    note.hidden = false;
  }
  keep();
  field.addEventListener("input", keep);
  note.querySelector("button").addEventListener("click", () => {
    field.value = kept;
    note.hidden = true;
    keep();
    field.focus();
  });
}
document.querySelectorAll("[data-draft]").forEach(draft);
