// What a plain page does beyond HTML: it shows which page this is, and keeps what somebody typed.
"use strict";

// The row of pages may be wider than the screen.
document
  .querySelector(".account-nav [aria-current]")
  ?.scrollIntoView({ block: "nearest", inline: "center" });

// Where a browser keeps nothing, to ask for its store already fails.
const store = (() => {
  try {
    return sessionStorage;
  } catch {
    return { getItem: () => null, setItem() {}, removeItem() {} };
  }
})();

// A text that is typed and not kept yet stays in this tab: the browser's Back, a link, or a session
// that ended, would lose it. Its name says whose it is. Where a browser keeps nothing, nothing is
// lost that was not lost before.
function draft(field) {
  const { draft: name, kept } = field.dataset;
  const note = document.querySelector("[data-drafted]");
  const same = (a, b) => a.trim() === b.trim();
  const keep = () => {
    if (same(field.value, kept)) store.removeItem(name);
    else store.setItem(name, field.value);
  };
  const typed = store.getItem(name);
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

// A form that is sent when the session has ended leads to the page to sign in, and from there back
// to its own page, which knows nothing of it. What was typed waits in this tab for whoever typed it.
const { who } = document.body.dataset;
const kept = ({ type, name, dataset }) =>
  name && !dataset.draft && !["hidden", "submit", "password"].includes(type);
const fields = (form) => [...form.elements].filter(kept);
const values = (form) => fields(form).map((field) => [field.name, field.value, field.checked]);
const sent = JSON.parse(store.getItem("sent") ?? "null");

function typedAgain(form) {
  const before = JSON.stringify(values(form));
  fields(form).forEach((field, at) => {
    [, field.value, field.checked] = sent.values[at];
  });
  if (JSON.stringify(values(form)) === before) return;
  const note = document.createElement("p");
  note.className = "muted";
  note.setAttribute("role", "status");
  note.textContent = "This was typed before you signed in again. It is not kept yet.";
  form.prepend(note);
  note.scrollIntoView({ block: "nearest" });
}

if (who === undefined) {
  if (sent) store.setItem("sent", JSON.stringify({ ...sent, isLate: true }));
} else {
  store.removeItem("sent");
  for (const form of document.querySelectorAll("form[method=post]")) {
    const names = fields(form).map(({ name }) => name);
    if (names.length === 0) continue;
    // A page has several forms with one address, which differ in what is hidden in them.
    const hidden = [...form.elements].filter(({ type }) => type === "hidden");
    // The number of a form that is good once is another one each time.
    const action = form.getAttribute("action").replace(/\?form=.*/, "");
    const texts = [who, action, ...names, ...hidden.map(({ value }) => value)];
    const about = { form: JSON.stringify(texts) };
    const isIt = sent?.form === about.form;
    if (isIt && sent.isLate) typedAgain(form);
    form.addEventListener("submit", () =>
      store.setItem("sent", JSON.stringify({ ...about, values: values(form) })),
    );
  }
}
