// Gives the page the chosen theme before anything is painted: the application would start too late
// for that. The key is that of web/src/theme.rs, the names are those of presentation/src/theme.rs.
try {
  const theme = localStorage.getItem("tidemark.theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // The storage is not available: the page uses the system's theme.
}

// Paper is white, so what is printed is light. Canvases follow the attribute, as they do when the
// theme is switched.
{
  const root = document.documentElement;
  let shown;
  addEventListener("beforeprint", () => {
    shown = root.dataset.theme ?? "auto";
    root.dataset.theme = "light";
  });
  addEventListener("afterprint", () => (root.dataset.theme = shown));
}
