// The page without a server: what the page asks of `/api/` is answered by a worker of this tab
// (worker.js), and nothing is sent anywhere. It is loaded before the page itself, which stays the
// same with a server and without one.
(() => {
  "use strict";
  const worker = new Worker(new URL("./worker.js", document.currentScript.src), {
    type: "module",
  });

  // Who waits for an answer, by the number of the question.
  const asked = new Map();
  let questions = 0;
  const streams = new Set();

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

  const isAsked = (url) => url.origin === location.origin && url.pathname.startsWith("/api/");

  const fetched = window.fetch.bind(window);
  window.fetch = async (input, init) => {
    const request = new Request(input, init);
    const url = new URL(request.url);
    if (!isAsked(url)) return fetched(input, init);
    const question = {
      method: request.method,
      path: url.pathname + url.search,
      accept: request.headers.get("Accept") ?? "*/*",
      body: request.method === "GET" ? "" : await request.text(),
    };
    return new Promise((resolve, reject) => {
      const failed = () => reject(new TypeError("the worker of this tab does not answer"));
      const done = ({ status, kind, body }) => {
        const headers = { "Content-Type": kind };
        resolve(new Response(status === 204 ? null : body, { status, headers }));
      };
      const id = ask(question, { done, failed });
      request.signal.addEventListener("abort", () => {
        if (!asked.delete(id)) return;
        worker.postMessage({ drop: id });
        reject(request.signal.reason);
      });
    });
  };

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
