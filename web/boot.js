// Starts the application. It is a separate file, because the content security policy allows no
// script inside the page.
import init from "./web.js";

init({ module_or_path: new URL("./web_bg.wasm", import.meta.url) }).catch((error) => {
  document.querySelector(".starting")?.remove();
  const note = document.createElement("p");
  note.className = "starting";
  note.setAttribute("role", "alert");
  const again = document.createElement("button");
  again.className = "button";
  again.textContent = "Try again";
  again.addEventListener("click", () => location.reload());
  note.append(`Tidemark could not start: ${error} `, again);
  document.body.append(note);
  throw error;
});
