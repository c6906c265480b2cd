// While someone works on the page: loads it again once another build is there.
const page = async () => (await fetch("/index.html", { cache: "no-store" })).text();
const first = await page();
const look = async () => {
  // A server that is being started again answers later.
  const now = await page().catch(() => first);
  if (now !== first) location.reload();
  else setTimeout(look, 500);
};
look();
