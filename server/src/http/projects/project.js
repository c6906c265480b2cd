// The page of one project. Loaded before the page itself, it names the project in every request, so
// that this tab stays in its project when another tab shows another one. It also names it in the
// address of the page and in links, so that they lead everybody to the same project.
(() => {
  "use strict";
  const project = document.currentScript.dataset.project;
  const HEADER = "Tidemark-Project";
  const isOurs = (address) => {
    const url = new URL(address, location.href);
    return url.origin === location.origin && url.pathname.startsWith("/api/");
  };

  const fetched = window.fetch.bind(window);
  window.fetch = (input, init) => {
    const request = new Request(input, init);
    if (!isOurs(request.url)) return fetched(input, init);
    request.headers.set(HEADER, project);
    return fetched(request);
  };

  const open = XMLHttpRequest.prototype.open;
  XMLHttpRequest.prototype.open = function (method, address, ...rest) {
    open.call(this, method, address, ...rest);
    if (isOurs(address)) this.setRequestHeader(HEADER, project);
  };

  // Streams of events send no headers.
  const Events = window.EventSource;
  window.EventSource = class extends Events {
    constructor(address, init) {
      const url = new URL(address, location.href);
      if (isOurs(url)) url.searchParams.set("project", project);
      super(url, init);
    }
  };

  // The program writes addresses without a project, and reads them without one.
  const inProject = (address) => {
    const url = new URL(address, location.href);
    const isPage = !/^\/(api|assets|p|s|sign-\w+)\//.test(`${url.pathname}/`);
    const isNamed = url.searchParams.has("project");
    if (url.origin !== location.origin || !isPage || isNamed) return address;
    // The rest of the query stays as it is written.
    const query = `${url.search ? `${url.search}&` : "?"}project=${project}`;
    return `${url.pathname}${query}${url.hash}`;
  };
  for (const name of ["pushState", "replaceState"]) {
    const write = history[name].bind(history);
    history[name] = (state, title, address) =>
      write(state, title, inProject(address ?? location.href));
  }
  history.replaceState(history.state, "");
  // A link is named before somebody follows it, copies it, or opens it in another tab.
  const nameLink = ({ target }) => {
    const link = target.closest?.('a[href^="/"]');
    if (link) link.setAttribute("href", inProject(link.getAttribute("href")));
  };
  for (const kind of ["pointerdown", "focusin"]) addEventListener(kind, nameLink, true);

  // Tabs tell each other what happens; those of other projects must not listen.
  const Channel = window.BroadcastChannel;
  if (Channel) {
    window.BroadcastChannel = class extends Channel {
      constructor(name) {
        super(`${name}@${project}`);
      }
    };
  }
  const { locks } = navigator;
  if (locks) {
    const request = locks.request.bind(locks);
    locks.request = (name, ...rest) => request(`${name}@${project}`, ...rest);
  }
})();
