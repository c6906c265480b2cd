// For people who work on the page: reloads it when there is a new build.
const page = async () => (await fetch("/index.html", { cache: "no-store" })).text();
const first = await page();
const look = async () => {
  // While the server restarts, it does not answer: keep the old page.
  const now = await page().catch(() => first);
  if (now !== first) location.reload();
  else setTimeout(look, 500);
};
look();
