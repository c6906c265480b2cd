// *Share* on the page without a server. The page may know one server: the one that its content
// security policy lets it ask. A person says yes and shows a token, then the recordings are sent
// there and that server makes the link. page.js calls this; nothing here is sent without a click.
const sharing = (() => {
  "use strict";
  const policy = document.querySelector('meta[http-equiv="Content-Security-Policy"]');
  const server = policy?.content.match(/connect-src 'self' ([^\s;]+)/)?.[1] ?? null;

  // As the browser has them: page.js replaces both.
  const ask = window.fetch.bind(window);
  const Sender = window.XMLHttpRequest;

  // The header that names the project of a request.
  const PROJECT = "Tidemark-Project";

  const GZIP = [0x1f, 0x8b];
  const ZSTD = [0x28, 0xb5, 0x2f, 0xfd];

  // The token stays in this tab, until the tab is closed.
  const KEPT = `tidemark.token ${server}`;

  // The projects that the last token may write to, and the one that was chosen; of this tab.
  let last = { token: "", projects: [], project: null };

  // Why it did not work, for the person.
  class Said extends Error {}

  // The person must say which of these projects is meant.
  class Which extends Error {
    constructor(projects) {
      super(`${server} has several projects. Say which one keeps what you share, and send again.`);
      this.projects = projects;
    }
  }

  const unreachable = () =>
    new Said(
      `${server} does not answer this page. Either it cannot be reached from here, or it does not ` +
        `allow this page: whoever runs it starts it with --allow-page ${location.origin}.`,
    );

  // Asks the server; the answer's status and document.
  async function asked(method, path, { token, project, signal }, body) {
    const headers = { Authorization: `Bearer ${token}` };
    if (project) headers[PROJECT] = project;
    if (body) headers["Content-Type"] = "application/json";
    const how = { method, headers, body, signal, credentials: "omit", redirect: "error" };
    try {
      const answer = await ask(server + path, how);
      return { status: answer.status, text: await answer.text() };
    } catch (error) {
      signal.throwIfAborted();
      throw unreachable();
    }
  }

  function wrongToken() {
    store("");
    return new Said(`${server} does not know this token, or the token has ended. Copy it again.`);
  }

  function detail({ status, text }) {
    try {
      const { detail } = JSON.parse(text);
      if (detail) return detail;
    } catch {
      // Something between this page and Tidemark answered.
    }
    return `it answered with status ${status}`;
  }

  const refused = (answer) =>
    answer.status === 401 ? wrongToken() : new Said(`${server} refused: ${detail(answer)}.`);

  // The link, if the server makes it now. Otherwise nothing, if a recording is not there yet.
  async function link(wish, shown) {
    const answer = await asked("POST", "/api/shares", shown, wish);
    if (answer.status === 404) return null;
    // What the form asks for is not possible: its own page says so.
    if (answer.status === 201 || answer.status === 400) return answer;
    throw refused(answer);
  }

  // The project that keeps what is sent; null where the server has one only, or where it must say
  // itself why nothing can be sent.
  async function projectOf(shown) {
    let answer;
    try {
      answer = await asked("GET", "/api/projects", shown);
    } catch (error) {
      shown.signal.throwIfAborted();
      // It has answered this page just now: it is of a time when pages did not ask for projects.
      return null;
    }
    if (answer.status !== 200) throw refused(answer);
    const all = JSON.parse(answer.text);
    const takes = ({ closed_ms: closed, trouble, role }) =>
      !closed && !trouble && (role === "admin" || role === "member");
    const projects = all.filter(takes).map(({ name }) => name);
    if (all.length < 2 || projects.length === 0) return null;
    if (projects.includes(shown.project)) return shown.project;
    // Where another one was chosen that takes nothing any more, they choose again.
    if (projects.length === 1 && !shown.project) return projects[0];
    throw new Which(projects);
  }

  async function send(recordings, wish, asking, told) {
    told("Asking the server…");
    const everywhere = { ...asking, project: null };
    const about = await asked("GET", "/api/server", everywhere);
    if (about.status !== 200) throw refused(about);
    const { access, upload_limit: limit } = JSON.parse(about.text);
    if (access === "token_needed") throw wrongToken();
    const project = await projectOf({ ...everywhere, project: asking.project });
    const shown = { ...asking, project };
    const large = recordings.find(({ file }) => file.size > limit);
    if (large) {
      throw new Said(
        `${large.name} has ${bytes(large.file.size)}; ${server} takes ${bytes(limit)} at most.`,
      );
    }
    // Before anything is sent, this tells whether the token is good for it.
    const made = await link(wish, shown);
    if (made) return made;
    for (const recording of recordings) {
      const there = await asked("GET", `/api/runs/${recording.run}`, shown);
      if (there.status === 200) continue;
      if (there.status !== 404) throw refused(there);
      await upload(recording, shown, told);
    }
    told("Making the link…");
    const last = await link(wish, shown);
    if (last) return last;
    throw new Said(`${server} does not have the recording any more. Try again.`);
  }

  async function upload(recording, shown, told) {
    const { run, name } = recording;
    const body = await packed(recording, shown.signal, told);
    const path = `/api/upload/${encodeURIComponent(name)}`;
    const answer = await put(path, { ...body, name }, shown, (sent) => {
      const all = `${bytes(sent)} of ${bytes(body.file.size)}`;
      const waits = sent === body.file.size;
      const words = waits ? `The server reads ${name}…` : `Sending ${name}: ${all}`;
      told(words, waits ? null : sent / body.file.size);
    });
    if (answer.status !== 200 && answer.status !== 201) throw refused(answer);
    if (JSON.parse(answer.text).run.id !== run) {
      throw new Said(`${server} made another run of ${name} than this page. Is its version other?`);
    }
  }

  // The file as it is sent: what is packed already, as it is; all else with gzip, which the server
  // takes off again, so that the run has the same id.
  async function packed({ file, name }, signal, told) {
    try {
      const head = new Uint8Array(await file.slice(0, ZSTD.length).arrayBuffer());
      const begins = (mark) => mark.every((byte, at) => head[at] === byte);
      if (begins(GZIP) || begins(ZSTD) || !window.CompressionStream) return { file };
      let read = 0;
      const count = new TransformStream({
        transform(piece, out) {
          read += piece.byteLength;
          told(`Compressing ${name}: ${bytes(read)} of ${bytes(file.size)}`, read / file.size);
          out.enqueue(piece);
        },
      });
      const pieces = file.stream().pipeThrough(count, { signal });
      const small = pieces.pipeThrough(new CompressionStream("gzip"));
      return { file: await new Response(small).blob(), coding: "gzip" };
    } catch (error) {
      signal.throwIfAborted();
      throw unreadable(name, error);
    }
  }

  const unreadable = (name, error) =>
    new Said(
      `The browser cannot read ${name} any more: it was changed, moved or deleted since it was ` +
        `opened, or the browser may not read it any more. Close this, open the file again, and ` +
        `share it then. (${error.message})`,
    );

  // Why a file did not arrive: the browser tells only that it did not.
  const lost = ({ file, name }) =>
    file.slice(0, 1).arrayBuffer().then(unreachable, (error) => unreadable(name, error));

  // With `XMLHttpRequest`, because `fetch` does not tell how much of a body is sent.
  function put(path, sent, { token, project, signal }, told) {
    const { file, coding } = sent;
    return new Promise((resolve, reject) => {
      const sender = new Sender();
      sender.open("PUT", server + path);
      sender.setRequestHeader("Authorization", `Bearer ${token}`);
      sender.setRequestHeader("Content-Type", "application/octet-stream");
      if (project) sender.setRequestHeader(PROJECT, project);
      if (coding) sender.setRequestHeader("Content-Encoding", coding);
      sender.upload.onprogress = ({ loaded }) => told(loaded);
      sender.onloadend = () => {
        if (signal.aborted) reject(signal.reason);
        else if (sender.status === 0) lost(sent).then(reject);
        else resolve({ status: sender.status, text: sender.responseText });
      };
      signal.addEventListener("abort", () => sender.abort());
      sender.send(file);
    });
  }

  // As the rest of the page writes sizes (trace/src/units/size.rs): never "1024 KiB".
  function bytes(count) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (count >= 1023.5 && at + 1 < units.length) {
      count /= 1024;
      at += 1;
    }
    const digits = at === 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
    return `${count.toFixed(digits)} ${units[at]}`;
  }

  // ------------------------------------------------------------------------------- the dialog

  function element(kind, attributes, ...content) {
    const made = document.createElement(kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...content);
    return made;
  }

  function stored() {
    try {
      return sessionStorage.getItem(KEPT) ?? "";
    } catch {
      return "";
    }
  }

  function store(token) {
    try {
      if (token) sessionStorage.setItem(KEPT, token);
      else sessionStorage.removeItem(KEPT);
    } catch {
      // Then it is typed again.
    }
  }

  function form(recordings) {
    const rows = recordings.map(({ name, file }) =>
      element("li", {}, element("span", {}, name), element("span", {}, bytes(file.size))),
    );
    const token = element("input", {
      id: "send-token",
      class: "input",
      type: "password",
      required: "",
      autocomplete: "off",
      spellcheck: "false",
      "aria-describedby": "send-about-token",
    });
    token.value = stored();
    const project = element("select", { id: "send-project", class: "input" });
    const account = { href: `${server}/account`, target: "_blank", rel: "noopener noreferrer" };
    const parts = {
      token,
      project,
      projects: element("div", { class: "send-project", hidden: "" },
        element("label", { for: "send-project" }, "The project that keeps it"), project),
      said: element("p", { class: "send-said", role: "status" }),
      bar: element("progress", { class: "send-bar", "aria-label": "Progress", hidden: "" }),
      problem: element("p", { class: "bad-text", role: "alert" }),
      send: element("button", { class: "button primary", type: "submit" }, "Send and make the link"),
      cancel: element("button", { class: "button", type: "button" }, "Cancel"),
    };
    const one = recordings.length === 1;
    parts.form = element(
      "form",
      { class: "send-form" },
      element("p", {}, "To make a link, this page sends ", one ? "this file" : "these files", " to ",
        element("strong", {}, server), ":"),
      element("ul", { class: "send-files" }, ...rows),
      element("p", { class: "muted" }, "The whole recording leaves this machine, with all names and " +
        "stacks in it, and that server keeps it. What the server has already is not sent again."),
      element("label", { for: "send-token" }, "Your token for this server"),
      token,
      element("p", { class: "muted", id: "send-about-token" },
        "It must be good for read, upload and manage; ",
        element("a", account, "make one under Account"),
        ". This tab forgets it when it is closed, and tells it to this server only."),
      parts.projects,
      parts.said,
      parts.bar,
      parts.problem,
      element("div", { class: "share-buttons" }, parts.cancel, parts.send),
    );
    return parts;
  }

  // Opens a dialog over the page.
  function shown(title, content) {
    const head = element("header", { class: "dialog-head" },
      element("h2", { id: "send-title" }, title));
    const dialog = element("dialog", { class: "dialog send-dialog", "aria-labelledby": "send-title" },
      element("div", { class: "dialog-body" }, head, content));
    document.body.append(dialog);
    dialog.showModal();
    return dialog;
  }

  // What *Share* says where the page knows no server.
  function explain() {
    const close = element("button", { class: "button primary", type: "button" }, "Close");
    const dialog = shown("There is no link to this view",
      element("div", { class: "send-form" },
        element("p", {}, "A link leads to a server, and this page knows none: the recording is open " +
          "in this tab only. To show it to others, send the file to a server, which prints a link:"),
        element("pre", { tabindex: "0" }, element("code", {}, "tidemark push FILE --server URL")),
        element("p", { class: "muted" }, "A page that was built with ",
          element("code", {}, "./run --page DIR --server URL"), " sends the file itself."),
        element("div", { class: "share-buttons" }, close)));
    close.onclick = () => dialog.close();
    dialog.onclose = () => dialog.remove();
  }

  // Asks the person, sends, and returns the server's answer; null if the person does not want it.
  function share(recordings, wish) {
    const parts = form(recordings);
    let running = null;
    const offer = (projects) => {
      const options = projects.map((name) => element("option", { value: name }, name));
      parts.project.replaceChildren(...options);
      parts.projects.hidden = projects.length === 0;
      if (projects.includes(last.project)) parts.project.value = last.project;
    };
    if (last.token && last.token === parts.token.value) offer(last.projects);
    // Another token may write to other projects.
    parts.token.oninput = () => offer([]);
    const told = (words, part) => {
      parts.said.textContent = words;
      if (typeof part === "number") parts.bar.value = part;
      else parts.bar.removeAttribute("value");
    };
    const rest = (problem) => {
      running = null;
      parts.problem.textContent = problem;
      parts.said.textContent = "";
      parts.bar.hidden = true;
      parts.send.disabled = parts.token.disabled = parts.project.disabled = false;
    };
    const dialog = shown("Send to a server", parts.form);
    (parts.token.value ? parts.send : parts.token).focus();
    return new Promise((resolve) => {
      parts.cancel.onclick = () => dialog.close();
      dialog.onclose = () => {
        running?.abort();
        dialog.remove();
        resolve(null);
      };
      parts.form.onsubmit = async (event) => {
        event.preventDefault();
        const token = parts.token.value.trim();
        const stop = (running = new AbortController());
        parts.problem.textContent = "";
        parts.bar.hidden = false;
        parts.send.disabled = parts.token.disabled = parts.project.disabled = true;
        const project = parts.project.value || null;
        try {
          const asking = { token, project, signal: stop.signal };
          const answer = await send(recordings, wish, asking, told);
          running = null;
          store(token);
          // Those of another token are not offered with this one.
          last = { token, project, projects: last.token === token ? last.projects : [] };
          resolve(answer);
          dialog.close();
        } catch (error) {
          if (stop.signal.aborted) return;
          if (error instanceof Which) {
            last = { token, projects: error.projects, project: null };
            rest(error.message);
            offer(error.projects);
            parts.project.focus();
            return;
          }
          rest(error instanceof Said ? error.message : `It failed: ${error.message}`);
          parts.token.focus();
        }
      };
    });
  }

  return { server, share, explain };
})();
