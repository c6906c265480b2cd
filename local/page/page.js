// The page without a server: what the page asks of `/api/` is answered by a worker of this tab
// (worker.js), and nothing is sent anywhere, unless the page knows a server and a person shares a
// recording there (share.js). It is loaded before the page itself, which stays the same with a
// server and without one.
(() => {
  "use strict";
  // For words that are not the whole truth any more (local.css).
  if (sharing.server) document.documentElement.dataset.server = sharing.server;

  const worker = new Worker(new URL("./worker.js", document.currentScript.src), {
    type: "module",
    name: sharing.server ?? "",
  });

  // *Share* makes a link at a server. Without one, a form for it could only be refused.
  if (!sharing.server) {
    const instead = (event) => {
      if (!event.target.closest?.(".share-open")) return;
      event.stopPropagation();
      sharing.explain();
    };
    document.addEventListener("click", instead, { capture: true });
  }

  // Who waits for an answer, by the number of the question.
  const asked = new Map();
  let questions = 0;
  const streams = new Set();

  // The files that were opened, by the run that each became. A file is read again only to share it.
  const files = new Map();

  // The links that were made, by the last part of their addresses.
  const links = new Map();

  worker.onmessage = ({ data }) => {
    if (data.notice) {
      for (const stream of streams) stream.hear(data.notice);
    } else if (data.read !== undefined) {
      asked.get(data.id)?.read(data.read);
    } else {
      const waits = asked.get(data.id);
      asked.delete(data.id);
      waits?.done(data);
    }
  };

  // The worker itself could not be loaded.
  worker.onerror = () => {
    for (const waits of asked.values()) waits.failed();
    asked.clear();
  };

  function ask(question, waits) {
    questions += 1;
    asked.set(questions, waits);
    worker.postMessage({ id: questions, ...question });
    return questions;
  }

  // What the worker answers.
  function answered(question) {
    return new Promise((resolve, reject) => {
      const failed = () => reject(new TypeError("the worker of this tab does not answer"));
      ask(question, { done: resolve, failed });
    });
  }

  const isAsked = (url) => url.origin === location.origin && url.pathname.startsWith("/api/");

  const fetched = window.fetch.bind(window);
  window.fetch = async (input, init) => {
    const request = new Request(input, init);
    const url = new URL(request.url);
    if (!isAsked(url)) return fetched(input, init);
    // What is written for a link that hides names must not tell them. The server has stand-ins for
    // them; here nobody knows these, so numbers are all that is told.
    const link = links.get(url.searchParams.get("link"));
    if (link?.hides) url.searchParams.set("numbers_only", "1");
    const question = {
      method: request.method,
      path: url.pathname + url.search,
      accept: request.headers.get("Accept") ?? "*/*",
      body: request.method === "GET" ? "" : await request.text(),
    };
    if (sharing.server && request.method === "POST" && url.pathname === "/api/shares") {
      return shared(question);
    }
    return new Promise((resolve, reject) => {
      const failed = () => reject(new TypeError("the worker of this tab does not answer"));
      const done = (answered) => resolve(answer(link ? led(answered, link) : answered));
      const id = ask(question, { done, failed });
      request.signal.addEventListener("abort", () => {
        if (!asked.delete(id)) return;
        worker.postMessage({ drop: id });
        reject(request.signal.reason);
      });
    });
  };

  // The server's answer to a wish for a link. Nothing else of what the page asks leaves the tab.
  async function shared({ body }) {
    const { target } = JSON.parse(body);
    const recordings = [];
    for (const run of new Set(target.runs ?? [target.run])) {
      const path = `/api/runs/${run}`;
      const known = await answered({ method: "GET", path, accept: "*/*", body: "" });
      if (known.status !== 200) return answer(known);
      const { name } = JSON.parse(new TextDecoder().decode(known.body));
      if (!files.has(run)) return no(`This tab does not hold ${name} any more. Open it again.`);
      recordings.push({ run, name, file: files.get(run) });
    }
    const made = await sharing.share(recordings, body);
    if (!made) return no("A file that had not arrived completely was not kept.");
    if (made.status === 201) {
      const { share, url } = JSON.parse(made.text);
      links.set(url.split("/").pop(), { url, hides: share.redaction !== "none" });
    }
    return answer({ status: made.status, kind: "application/json", body: made.text });
  }

  // The worker knows the server by the address that this page has of it. Others may reach it by
  // another one only, which the server puts into its links.
  function led({ status, kind, body }, { url }) {
    const here = `${sharing.server}${new URL(url).pathname}`;
    const text = new TextDecoder().decode(body).replaceAll(here, url);
    return { status, kind, body: text };
  }

  function answer({ status, kind, body }) {
    return new Response(status === 204 ? null : body, { status, headers: { "Content-Type": kind } });
  }

  function no(why) {
    const problem = {
      code: "cancelled",
      status: 409,
      title: "No link was made",
      detail: `No link was made. ${why}`,
    };
    return answer({ status: 409, kind: "application/problem+json", body: JSON.stringify(problem) });
  }

  // Only what the page uses of it: to send one file.
  window.XMLHttpRequest = class {
    upload = { onprogress: null };
    onloadend = null;
    status = 0;
    responseText = "";
    #path = "";
    #id = 0;

    open(_, path) {
      this.#path = path;
    }

    setRequestHeader() {}

    getResponseHeader() {
      return null;
    }

    send(file) {
      const upload = this.#path.split("/").pop();
      const read = (loaded) => {
        const told = { loaded, total: file.size, lengthComputable: true };
        this.upload.onprogress?.(new ProgressEvent("progress", told));
      };
      const done = ({ status, body }) => {
        this.status = status;
        this.responseText = new TextDecoder().decode(body);
        if (status < 300) files.set(JSON.parse(this.responseText).run.id, file);
        this.onloadend?.(new ProgressEvent("loadend"));
      };
      const failed = () => this.onloadend?.(new ProgressEvent("loadend"));
      this.#id = ask({ upload, file }, { read, done, failed });
    }

    abort() {
      if (!asked.delete(this.#id)) return;
      const cancel = { method: "DELETE", path: this.#path, accept: "*/*", body: "" };
      ask(cancel, { done() {}, failed() {} });
      this.onloadend?.(new ProgressEvent("loadend"));
    }
  };

  // What the worker tells is of this tab alone: other tabs hold other recordings. So each tab
  // listens for itself, and tells the others nothing.
  window.EventSource = class {
    readyState = 1;
    onopen = null;
    onmessage = null;
    onerror = null;

    constructor() {
      streams.add(this);
      queueMicrotask(() => this.onopen?.(new Event("open")));
    }

    hear(data) {
      this.onmessage?.(new MessageEvent("message", { data }));
    }

    close() {
      this.readyState = 2;
      streams.delete(this);
    }
  };
  window.BroadcastChannel = class {
    onmessage = null;
    postMessage() {}
    close() {}
  };
  Object.defineProperty(navigator, "locks", { value: undefined });
})();
