// Gives the page the chosen theme before anything is painted: the application would start too late
// for that. The key is that of web/src/theme.rs, the names are those of presentation/src/theme.rs.
try {
  const theme = localStorage.getItem("tidemark.theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // The storage is not available: the page uses the system's theme.
}
