// The worker of the page without a server: holds the open recordings, and answers what the page
// asks (page.js). The answers come from the crate `local`.
import init, { Server } from "./local.js";

// Bytes of a file that are read at once. Between two pieces the page is answered.
const PIECE = 4 << 20;

// How often the page is told how far a file is, milliseconds.
const TELL_EVERY = 200;

const wasm = new URL("./local_bg.wasm", import.meta.url);
// The page names the worker after the server that makes links, if it knows one.
const make = () => new Server(self.location.origin, self.name || undefined);
const ready = init({ module_or_path: wasm }).then(make);

// Questions that wait. The page may drop one again: whoever zooms on asks for other tiles.
const waiting = [];
let answering = false;

self.onmessage = ({ data }) => {
  if (data.drop) {
    const at = waiting.findIndex((one) => one.id === data.drop);
    if (at >= 0) waiting.splice(at, 1);
  } else if (data.file) {
    open(data);
  } else {
    waiting.push(data);
    answerAll();
  }
};

async function answerAll() {
  if (answering) return;
  answering = true;
  while (waiting.length > 0) {
    const { id, method, path, accept, body } = waiting.shift();
    await guarded(id, (server) => server.answer(method, path, accept, body, Date.now()));
    // Lets messages in: some of the waiting questions may have been dropped.
    await turn();
  }
  answering = false;
}

async function open({ id, upload, file }) {
  let next = piece(file, 0);
  const isAnswered = await guarded(id, async (server) => {
    let refused = server.begin(upload);
    let told = 0;
    for (let at = 0; !refused && at < file.size; at += PIECE) {
      const bytes = new Uint8Array(await next);
      next = piece(file, at + PIECE);
      refused = server.push(upload, bytes);
      self.postMessage({ id, read: at + bytes.length });
      if (Date.now() - told > TELL_EVERY) {
        told = Date.now();
        server.receiving(upload);
        tell(server);
      }
    }
    if (refused) return refused;
    server.replaying(upload);
    tell(server);
    await turn();
    refused = server.replay(upload);
    if (refused) return refused;
    // Meanwhile it may have been cancelled; whoever did so is answered first.
    do await turn();
    while (waiting.length > 0);
    return server.finish(upload, Date.now());
  });
  // What was read of a file that cannot be read any more is of no use.
  if (!isAnswered) await guarded(0, (server) => server.answer(...forget(upload), Date.now()));
  judge();
}

const forget = (upload) => ["DELETE", `/api/uploads/${upload}`, "*/*", ""];

// The next bytes are fetched while these are read.
function piece(file, at) {
  if (at >= file.size && at > 0) return null;
  const bytes = file.slice(at, at + PIECE).arrayBuffer();
  // Whoever waits for them hears of a failure.
  bytes.catch(() => {});
  return bytes;
}

// Large recordings are judged after they are open: nobody waits for it.
async function judge() {
  const server = await ready;
  await turn();
  try {
    while (server.judge()) {
      tell(server);
      await turn();
    }
  } catch {
    // The next question says it.
  }
}

// Sends the answer, or why there is none. Whether there is one.
async function guarded(id, ask) {
  try {
    const server = await ready;
    const answer = await ask(server);
    const { status, kind } = answer;
    const body = answer.body();
    answer.free();
    tell(server);
    self.postMessage({ id, status, kind, body }, [body.buffer]);
    return true;
  } catch (error) {
    const problem = why(error);
    const body = new TextEncoder().encode(JSON.stringify(problem));
    self.postMessage({ id, status: problem.status, kind: "application/problem+json", body });
    return false;
  }
}

function why(error) {
  if (error instanceof DOMException) {
    return {
      code: "gone",
      status: 410,
      title: "The browser cannot read this file any more",
      detail: "It was changed, moved or deleted since it was chosen, or the browser may not read " +
        `it any more. Open it again. (${error.message})`,
    };
  }
  return {
    code: "internal",
    status: 500,
    title: "This tab cannot go on",
    detail: `It failed (${error}), perhaps because it needs more memory than a tab may have. Load ` +
      "the page again. `tidemark serve` reads files of any size.",
  };
}

function tell(server) {
  for (const notice of server.notices()) self.postMessage({ notice });
}

// Resolves after the messages that have arrived by now.
const turns = new MessageChannel();
const turned = [];
turns.port1.onmessage = () => turned.shift()();
function turn() {
  return new Promise((resolve) => {
    turned.push(resolve);
    turns.port2.postMessage(null);
  });
}
