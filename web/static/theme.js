// Puts the page in the theme that was chosen before anything is painted: the application comes too
// late for that. The key and the names are those of web/src/theme.rs.
try {
  const theme = localStorage.getItem("tidemark.theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // Storage is not to be had: the system's theme it is.
}
