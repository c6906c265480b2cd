// Starts the application. It is a separate file, because the content security policy allows no
// script inside the page.
import init from "./web.js";

init({ module_or_path: new URL("./web_bg.wasm", import.meta.url) }).catch((error) => {
  document.querySelector(".starting")?.remove();
  const note = document.createElement("p");
  note.setAttribute("role", "alert");
  note.textContent = `Tidemark could not start in this browser: ${error}`;
  document.body.append(note);
  throw error;
});
