#!/usr/bin/env python3
"""Record the memory history of a PyTorch program and hand it to Tidemark.

Standard library only: copy this file beside your training script, or `pip install` the folder that
it is in. Three ways to use it.

Around a script, without touching it:

    python tidemark_capture.py --server http://tidemark:7878 train.py --lr 1e-4
    python tidemark_capture.py --output snapshot.pickle train.py --lr 1e-4

In the program, at the end, on an out-of-memory error, or every n steps:

    from tidemark_capture import Capture

    with Capture("http://tidemark:7878", name="llama-lora", every=100) as capture:
        for batch in batches:
            train_step(batch)
            capture.step()

With `live=True`, or `--live`, the dashboard shows the memory after each step while the program
runs, and can ask for a snapshot of the next steps. `record=False`, or `--no-record`, leaves the
recorder off until it does.

By hand, with a file that is there already:

    curl -T snapshot.pickle http://tidemark:7878/api/upload/
    curl -H "Authorization: Bearer $TIDEMARK_TOKEN" -T snapshot.pickle \
        https://tidemark.example.com/api/upload/

A capture never makes training fail, and uploads in the background. Snapshots wait in a folder, the
spool, until the server has them:

    python tidemark_capture.py spool           # what waits
    python tidemark_capture.py spool --send

Settings that a program does not give come from the environment: TIDEMARK_SERVER, _TOKEN, _PROJECT,
_NAME, _LABELS, _EVERY, _JOB, _LIVE, _RECORD, _PINNED, _COMPRESS, _MAX_ENTRIES, _WAIT, _SPOOL,
_SPOOL_BYTES and _SPOOL_FILES.
"""

import argparse
import atexit
import collections
import contextlib
import copy
import gzip
import hashlib
import http.client
import itertools
import json
import os
import queue
import random
import re
import runpy
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

try:
    import fcntl
except ImportError:  # Windows.
    fcntl = None

# The recorder keeps a ring of this many events. A training step has some thousands; a ring that is
# too small loses the beginning, and with it the verdict on leaks.
MAX_ENTRIES = 1_000_000

# Seconds that the server may take to answer: it parses while it receives.
TIMEOUT = 600
# The same for what is answered at once.
SHORT_TIMEOUT = 30

# Seconds between the tries to send one snapshot; a server that says when to come again is obeyed,
# up to the second number.
PAUSES = (0.5, 1, 2)
LONGEST_PAUSE = 30

# Seconds that the end of a program waits for what is still to be sent.
WAIT = 300

# What the spool may hold: bytes, snapshots.
SPOOL_BYTES = 4 << 30
SPOOL_FILES = 64

# Of a live run: seconds between two requests, how many steps wait for the server, and how many go
# in one request.
LIVE_SECONDS = 2.0
LIVE_ROWS = 10_000
LIVE_BATCH = 1_000
# Seconds: that the server may take, between tries at most, and that the end of a program waits.
LIVE_TIMEOUT = 5
LIVE_PAUSE = 60
LIVE_WAIT = 2
# Warnings of the server that are said.
LIVE_WARNINGS = 50

# Labels of one run, and what they are made of, as the server has it: a value has no control
# characters, and none that turn, hide or reorder their neighbours.
MOST_LABELS = 32
LABEL_KEY = re.compile(r"[A-Za-z0-9._/-]{1,64}")
LABEL_VALUE = re.compile(
    "[^\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]{1,200}"
)

# How sizes are written, and how many bytes a unit has: a letter alone is binary, as in `ls`.
SIZE = re.compile(r"([0-9,]*)(\.[0-9]*)?\s*([A-Za-z]*)")
UNITS = {"": 1, "b": 1}
UNITS.update((k + "b", 1000**n) for n, k in enumerate("kmgt", 1))
UNITS.update((unit, 1024**n) for n, k in enumerate("kmgt", 1) for unit in (k, k + "ib"))

# Seconds after which a snapshot that was never finished, or not removed whole, is taken for that of
# a dead process.
ABANDONED = 24 * 3600

# What the folders in a spool are called: when they were made, by which process.
STAMP = re.compile(r"\d{19}-\d+-[0-9a-f]{8}(\.part)?")

STRANGER = "what answered is not a Tidemark server"
SEND_LATER = "python -m tidemark_capture spool --send"


# --- what the user set, and what the user is told


def _say(text):
    with contextlib.suppress(Exception):  # stderr may be closed.
        print(f"tidemark: {text}", file=sys.stderr, flush=True)


class _Once:
    """Says each trouble once."""

    def __init__(self):
        self._said = set()

    def __call__(self, text, kind=None):
        if (kind or text) not in self._said:
            self._said.add(kind or text)
            _say(text)


def _plain(text):
    """A text of others on one line, without what a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in str(text))[:300]


def _printable(name):
    """A name that the server takes: not too long, and without what hides or turns others."""
    return "".join(c if c.isprintable() else "_" for c in name)[:120]


def _setting(name):
    return os.environ.get(f"TIDEMARK_{name}", "").strip() or None


def _size(text):
    """Bytes, such as 4096, 1.5 GiB, 24GB: read as the server does. Raises ValueError for others."""
    found = SIZE.fullmatch(text.strip())
    whole, part, unit = found.groups("") if found else ("", "", "")
    plain, digits, factor = whole.replace(",", ""), part[1:19], UNITS.get(unit.lower(), 0)
    if not factor or not (plain or digits):
        raise ValueError("this is no size")
    # A comma may mean a point, except between the thousands of whole bytes.
    if plain != whole and (part or factor > 1 or f"{int(plain):,}" != whole):
        raise ValueError("this is no size")
    one = 10 ** len(digits)
    size = int(plain or 0) * factor + (int(digits or 0) * factor + one // 2) // one
    if size >= 1 << 63:
        raise ValueError("this is too large")
    return size


def _count(text):
    """A whole number: 250, 2k. Raises ValueError for what is none."""
    if "." in text:
        raise ValueError("this is no whole number")
    return _size(text)


def _number(name, default, read=_count):
    """A number from the environment; the default where it is none."""
    text = _setting(name)
    try:
        return read(text) if text else default
    except ValueError:
        _say(f"TIDEMARK_{name} is not a number: {_plain(text)!r}; it is {default} now")
        return default


# --- labels


def _label(key, value):
    """A label as it is kept. Raises ValueError for what is none."""
    if not isinstance(key, str) or not isinstance(value, str):
        raise ValueError(f"the key and the value of a label are strings: {key!r}: {value!r}")
    key, value = key.strip(), value.strip()
    if not LABEL_KEY.fullmatch(key):
        raise ValueError(f"a label's key has 1 to 64 letters, digits, and . _ - or /: {key!r}")
    if not LABEL_VALUE.fullmatch(value):
        why = "a label's value has 1 to 200 characters, none of which hides or turns others"
        raise ValueError(f"{why}: {key}={value!r}")
    return key, value


def _label_of(text):
    key, is_one, value = text.partition("=")
    if not is_one:
        raise ValueError(f"a label is written KEY=VALUE: {text!r}")
    return _label(key, value)


def _labels_of_ci():
    """Branch and commit, as GitHub's and GitLab's jobs know them; of a pull request its own."""
    env = os.environ.get
    if env("GITHUB_ACTIONS") == "true":
        branches, commit = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME"), "GITHUB_SHA"
    elif env("GITLAB_CI") == "true":
        branches = ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME")
        commit = "CI_COMMIT_SHA"
    else:
        return
    branch = next(filter(None, map(env, branches)), "")
    for key, value in (("branch", branch), ("commit", env(commit, ""))):
        with contextlib.suppress(ValueError):  # Nobody wished for it.
            yield _label(key, value)


def _all_labels(given):
    """The labels of a run: those given, before the environment's, before what CI knows.

    Raises ValueError for given ones that are none. Others that are none are left out and said.
    """
    if not isinstance(given or {}, dict):
        raise ValueError("labels are a dictionary of strings")
    labels = dict(_label(key, value) for key, value in (given or {}).items())
    if len(labels) > MOST_LABELS:
        raise ValueError(f"a run has {MOST_LABELS} labels at most")
    named, left_out = {}, []
    for text in filter(str.strip, (_setting("LABELS") or "").split(",")):
        try:
            key, value = _label_of(text)
            named[key] = value
        except ValueError as error:
            left_out.append(str(error))
    for key, value in (*named.items(), *_labels_of_ci()):
        if key in labels or len(labels) < MOST_LABELS:
            labels.setdefault(key, value)
        else:
            left_out.append(f"a run has {MOST_LABELS} labels at most: {key!r}")
    if left_out:
        _say(_plain(f"labels of the environment are left out: {'; '.join(left_out)}"))
    return labels


# --- the server


class Refused(OSError):
    """The server's answer was no."""

    def __init__(self, status, text, again=None):
        super().__init__(text)
        self.status = status
        self.again = again

    @property
    def is_final(self):
        """Whether asking again now gets the same answer."""
        return self.status < 500 and self.status not in (408, 409, 425, 429)

    @property
    def is_of_the_file(self):
        """Whether this file will never be taken."""
        return self.status in (400, 413, 415, 422)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would take the token along to wherever it is sent."""

    def redirect_request(self, *_):
        return None


class Server:
    """A dashboard over HTTP."""

    def __init__(self, url, token=None):
        """Raises ValueError when the address or the token cannot be one."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ValueError("the server's address must be like http://HOST:PORT")
        token = (token or _setting("TOKEN") or "").strip()
        if not all("!" <= c <= "~" for c in token):
            # http.client would print it.
            raise ValueError("the token has a character that none can have")
        self.url = url.rstrip("/")
        self.project = _setting("PROJECT") or ""
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirect)

    def of(self, project):
        """The same dashboard, for requests about this project."""
        other = copy.copy(self)
        other.project = project
        return other

    def job(self, name, key):
        """The id of the job with this key, which is made unless it is there."""
        return _id(self._json("POST", "/api/jobs", {"name": name, "key": key}))

    def upload(self, path, name, job=None, rank=None):
        """Upload a snapshot, perhaps as a rank of a job; return the server's answer."""
        size = os.path.getsize(path)
        about = {"name": name, "size": size, "job": job, "rank": rank}
        # Announced first: what is refused for its size is refused before a byte is sent.
        about = {key: value for key, value in about.items() if value is not None}
        upload = _id(self._json("POST", "/api/uploads", about), "upload")
        with open(path, "rb") as file:
            pieces = iter(lambda: file.read(1 << 20), b"")
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
            return self._ask("PUT", f"/api/uploads/{upload}", pieces, headers, TIMEOUT)

    def label(self, run, labels):
        """Put labels on a run; its others stay."""
        self._json("PATCH", f"/api/runs/{run}/labels", {"labels": labels})

    def live(self, document, *path, timeout=LIVE_TIMEOUT):
        """Begin a live run, or tell something of the one that the path names."""
        return self._json("POST", "/".join(("/api/live", *path)), document, timeout)

    def link(self, run, kind="runs"):
        """The address of a run."""
        project = f"?project={urllib.parse.quote(self.project)}" if self.project else ""
        return f"{self.url}/{kind}/{run}{project}"

    def _json(self, method, path, document, timeout=SHORT_TIMEOUT):
        headers = {"Content-Type": "application/json"}
        return self._ask(method, path, json.dumps(document).encode(), headers, timeout)

    def _ask(self, method, path, body, headers, timeout):
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        if self.project:
            request.add_header("Tidemark-Project", self.project)
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                document = json.loads(answer.read(1 << 20)) if answer.status != 204 else {}
        except urllib.error.HTTPError as error:
            with error:
                again = error.headers.get("Retry-After", "")
                again = int(again[:9]) if again.isdecimal() else None
                raise Refused(error.code, _reason(error), again) from None
        except (http.client.HTTPException, urllib.error.URLError) as error:
            raise OSError(_plain(getattr(error, "reason", None) or repr(error))) from None
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise OSError(STRANGER)
        return document


def _id(document, name="id"):
    """The id in an answer: letters, digits and underlines."""
    found = document.get(name) if isinstance(document, dict) else None
    if not isinstance(found, str) or not found.isidentifier() or not found.isascii():
        raise OSError(STRANGER)
    return found


def _reason(error):
    """What a problem document says, or the status."""
    try:
        return _plain(json.loads(error.read(1 << 16))["detail"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return f"the server answered {error.code}"


def upload(path, server, token=None, name=None, labels=None):
    """Upload a snapshot, label its run, and return the server's answer, a dictionary with the run.

    Raises ValueError for what is no label, and OSError when the server cannot be reached or refuses
    the file. Labels that it refuses are said on stderr.
    """
    labels = _all_labels(labels)
    dashboard = Server(server, token)
    answer = dashboard.upload(path, name or os.path.basename(path))
    _put_labels(dashboard, _id(answer.get("run")), labels, _Once())
    return answer


# --- which rank of which job


def _int(name):
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _rank_and_world(torch):
    """This process's number and how many there are; (None, 1) for one that is alone."""
    with contextlib.suppress(Exception):
        group = torch.distributed
        if group.is_available() and group.is_initialized() and group.get_world_size() > 1:
            return group.get_rank(), group.get_world_size()
    if _int("RANK") is not None:
        return _int("RANK"), _int("WORLD_SIZE") or 1
    # The variables of a step: a batch script itself has those of a job with many tasks.
    if (_int("SLURM_STEP_NUM_TASKS") or 1) > 1:
        return _int("SLURM_PROCID"), _int("SLURM_STEP_NUM_TASKS")
    return _int("LOCAL_RANK"), _int("WORLD_SIZE") or 1


def _launch(torch):
    """What all ranks of one start of a program have in common and no other start has, or None."""
    env = os.environ.get
    if _setting("JOB"):
        return ("job", _setting("JOB"))
    restarts = env("TORCHELASTIC_RESTART_COUNT", "0")
    run = env("TORCHELASTIC_RUN_ID")
    if run and _int("WORLD_SIZE") == _int("LOCAL_WORLD_SIZE"):
        # On one host torchrun is the parent of all. Its own run id may be "none" each time.
        return ("parent", socket.gethostname(), str(os.getppid()), _birth(os.getppid()), restarts)
    if not run and _int("SLURM_STEP_NUM_TASKS") and env("SLURM_STEP_ID"):
        names = ("CLUSTER_NAME", "JOB_ID", "STEP_ID", "RESTART_COUNT")
        return ("slurm", *(env(f"SLURM_{name}", "") for name in names))
    with contextlib.suppress(Exception):
        # Not a collective: one request to the store, which answers all with what came first.
        store = torch.distributed.distributed_c10d._get_default_store()
        return ("store", store.compare_set("tidemark/launch", "", secrets.token_hex(16)).decode())
    if run and run != "none":
        return ("run", run, env("MASTER_ADDR", ""), env("MASTER_PORT", ""), restarts)
    return None


def _birth(pid):
    """When a process began, since numbers of processes come again; empty where nobody says."""
    try:
        with open(f"/proc/{pid}/stat") as stat, open("/proc/sys/kernel/random/boot_id") as boot:
            return stat.read().rpartition(")")[2].split()[19] + boot.read().strip()
    except (OSError, IndexError):
        return ""


# --- the spool


class Entry:
    """A snapshot in the spool: a folder with the file, and with what is to be said of it."""

    def __init__(self, folder):
        self.folder = folder
        self._lock = None
        self._busy = None
        self.about = {}

    @property
    def path(self):
        """The snapshot."""
        return os.path.join(self.folder, self.about["name"])

    def note(self, **about):
        """Keep something about it."""
        self.about.update(about)
        path = os.path.join(self.folder, "about.json")
        with open(path + ".part", "w") as file:
            json.dump(self.about, file)
        os.replace(path + ".part", path)

    def claim(self):
        """Whether it is there and nobody else is sending it; then nobody else will."""
        try:
            if fcntl:
                # To be written, or a file system of several hosts does not lock it.
                self._lock = open(os.path.join(self.folder, "lock"), "a")
                _lock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(os.path.join(self.folder, "about.json")) as file:
                self.about = json.load(file)
            if os.path.basename(self.about["name"]) == self.about["name"]:
                return os.path.exists(self.path)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self.release()
        return False

    def hold(self, wait=True):
        """Whether it is still there; then nobody else drops it, though the spool is full.

        Its owner claims it for as long as it waits, but holds it only while it is being sent: what
        waits can be dropped by any process, or the spool of many ranks would have no bounds.
        """
        try:
            if fcntl and self._busy is None:
                self._busy = open(os.path.join(self.folder, "busy"), "a")
                _lock(self._busy, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.path.exists(os.path.join(self.folder, "about.json")):
                return True
        except OSError:
            pass
        self._busy = _unlock(self._busy)
        return False

    def is_held(self):
        """Whether it is being sent."""
        try:
            if fcntl:
                with open(os.path.join(self.folder, "busy"), "r+") as file:
                    # Shared: two that look at the same time do not take each other for a sender.
                    _lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    _lock(file, fcntl.LOCK_UN)
        except BlockingIOError:
            return True
        except OSError:
            pass  # Nobody ever held it.
        return False

    def release(self):
        """Let others send it, or drop it."""
        self._busy = _unlock(self._busy)
        self._lock = _unlock(self._lock)

    def remove(self):
        """It is sent, or given up."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.release()
        if not self.is_whole():
            # NFS keeps a file that is open, under another name, and the folder with it.
            shutil.rmtree(self.folder, ignore_errors=True)

    def is_whole(self):
        """Whether it is a snapshot: neither one that is being written nor what is left of one."""
        about = os.path.join(self.folder, "about.json")
        return not self.folder.endswith(".part") and os.path.exists(about)

    def size(self):
        """Bytes on the disk."""
        with contextlib.suppress(OSError):
            return sum(file.stat().st_size for file in os.scandir(self.folder))
        return 0

    def pack(self):
        """Compress it with gzip, if there is room for that."""
        plain = self.path
        packed = plain + ".gz"
        try:
            with open(plain, "rb") as source, gzip.open(packed, "wb", compresslevel=1) as file:
                shutil.copyfileobj(source, file, 1 << 20)
            self.note(name=os.path.basename(packed))
            os.remove(plain)
        except OSError:
            with contextlib.suppress(OSError):
                os.remove(packed)


def _lock(file, operation):
    """Lock or unlock a file. Raises BlockingIOError where another process holds it."""
    try:
        fcntl.flock(file, operation)
    except BlockingIOError:
        raise
    except OSError:
        pass  # A file system without locks: two may send the same, which does no harm.


def _unlock(file):
    """Let go of a file that is locked, if there is one; return what is there then: None."""
    if file:
        _lock(file, fcntl.LOCK_UN)  # Processes that were forked meanwhile have it too.
        file.close()
    return None


class Spool:
    """A folder of snapshots that wait for their server: of bounded size, the oldest go first."""

    def __init__(self, folder=None, say=None):
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.folder = folder or _setting("SPOOL") or os.path.join(cache, "tidemark", "spool")
        self.most_bytes = _number("SPOOL_BYTES", SPOOL_BYTES, _size)
        self.most_files = _number("SPOOL_FILES", SPOOL_FILES)
        self._say = say or _Once()
        self._is_temporary = False

    def add(self, about, dump):
        """A claimed entry whose snapshot `dump` writes to the path that it is given."""
        try:
            return self._add(about, dump)
        except OSError as error:
            if self._is_temporary:
                raise
            there, self.folder = self.folder, tempfile.mkdtemp(prefix="tidemark-spool-")
            self._is_temporary = True
            self._say(f"nothing can wait in {there} ({error}): it does in {self.folder}")
            return self._add(about, dump)

    def close(self):
        """Leave no empty folder behind."""
        if self._is_temporary:
            with contextlib.suppress(OSError):
                os.rmdir(self.folder)

    def _add(self, about, dump):
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        stamp = f"{time.time_ns():019}-{os.getpid()}-{secrets.token_hex(4)}"
        entry = Entry(os.path.join(self.folder, stamp + ".part"))
        try:
            os.mkdir(entry.folder, 0o700)
            entry.note(**about)
            dump(entry.path)
            if not entry.claim():
                raise OSError("nothing was recorded")
            whole = os.path.join(self.folder, stamp)
            os.rename(entry.folder, whole)
            entry.folder = whole
        except BaseException:
            entry.remove()
            raise
        self.trim(spare=entry)
        return entry

    def entries(self):
        """What is there, the oldest first; whatever else is in the folder is not touched."""
        with contextlib.suppress(OSError):
            names = sorted(filter(STAMP.fullmatch, os.listdir(self.folder)))
            return [Entry(os.path.join(self.folder, name)) for name in names]
        return []

    def waiting(self):
        """What is whole and waits, the oldest first."""
        return [entry for entry in self.entries() if entry.is_whole()]

    def trim(self, spare=None):
        """Keep to the bounds. The one to spare is not dropped, though it counts.

        What is being sent, by whomever, neither counts nor is dropped.
        """
        whole = []
        for entry in self.entries():
            if entry.is_whole():
                if not entry.is_held():
                    whole.append((entry, entry.size()))
            elif _age(entry.folder) > ABANDONED:
                entry.remove()
        held = sum(size for _, size in whole)
        count = len(whole)
        for entry, size in whole:
            if held <= self.most_bytes and count <= self.most_files:
                return
            if spare and entry.folder == spare.folder:
                continue
            held, count = held - size, count - 1
            if not entry.hold(wait=False):
                continue  # It has begun to be sent, or is gone.
            entry.remove()
            full = f"{self.most_files} snapshots or {self.most_bytes >> 20} MiB"
            self._say(f"the spool is full ({full}): the oldest are dropped", "full")


def _age(path):
    with contextlib.suppress(OSError):
        return time.time() - os.stat(path).st_mtime
    return 0


# --- sending


def deliver(server, entry, say=None):
    """Send an entry, label its run, and take it from the spool; return the link.

    Raises OSError when it was not sent.
    """
    project = entry.about.get("project")  # Whoever sends it may be of another one.
    server = server.of(project if isinstance(project, str) else server.project)
    say = say or _Once()
    entry.hold()
    try:
        if "run" not in entry.about:
            entry.about["run"] = _patiently(lambda: _upload(server, entry, say))
        run = _id(entry.about, "run")
    except OSError as error:
        if isinstance(error, Refused) and error.is_of_the_file:
            with contextlib.suppress(OSError):
                entry.note(refused=str(error))  # Not sent by itself again.
        raise OSError(_plain(error) or repr(error)) from error
    labels = entry.about.get("labels")
    if labels:
        with contextlib.suppress(OSError):
            entry.note()  # Whoever finds it, should this process end now, only labels the run.
        _put_labels(server, run, labels, say)
    entry.remove()
    return server.link(run)


def _patiently(ask):
    """What a function that asks the server returns: tries again where that may help."""
    for pause in (*PAUSES, None):
        try:
            return ask()
        except OSError as error:
            gone = isinstance(error, FileNotFoundError)
            if pause is None or getattr(error, "is_final", gone):
                raise
            again = min(getattr(error, "again", None) or 0, LONGEST_PAUSE)
        time.sleep(max(again, pause) * random.uniform(1, 1.5))
    raise AssertionError("the last try returns or raises")


def _upload(server, entry, say):
    """The run that an entry becomes."""
    os.stat(entry.path)  # Another process may have dropped it.
    job, rank = _place(server, entry, say)
    return _id(server.upload(entry.path, entry.about["name"], job, rank).get("run"))


def _put_labels(server, run, labels, say):
    """Label a run. It is there whatever comes of that, which is only said."""
    try:
        if labels:
            _patiently(lambda: server.label(run, labels))
    except OSError as error:
        say(f"{server.link(run)} is without its labels: {_plain(error) or repr(error)}", "labels")


def _place(server, entry, say):
    """The job and the rank that an entry goes to: none where the server takes no job."""
    job = entry.about.get("job")
    if not job:
        return None, None
    try:
        return server.job(job["name"], job["key"]), entry.about["rank"]
    except Refused as error:
        if error.status in (401, 403) or not error.is_final:
            raise
        if error.status not in (404, 405):  # Those say that the server knows no jobs.
            say(f"each rank is a run by itself: the server refused the job: {error}", "job")
        return None, None  # Better alone than not at all.


class _Sender:
    """Sends snapshots one after the other, in a thread of its own."""

    def __init__(self, server, spool, say):
        self.links = []
        self._server = server
        self._spool = spool
        self._say = say
        self._kept = 0
        self._tasks = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tidemark", daemon=True)
        self._thread.start()

    def put(self, task):
        """Have a function called in the thread; the entry that it returns, if any, is sent."""
        self._tasks.put(task)

    def finish(self, seconds):
        """Wait until all is sent or kept, but not longer than that."""
        self._tasks.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._say(f"not all is sent after {seconds} s")
        if self._spool.waiting() and (self._kept or self._thread.is_alive()):
            self._say(f"what was not sent waits in {self._spool.folder}")
        self._spool.close()

    def _run(self):
        for task in iter(self._tasks.get, None):
            try:
                entry = task()
                link = self._send(entry) if entry and os.path.exists(entry.path) else None
                if link:
                    self.links.append(link)
                    self._send_what_waits()
            except Exception as error:  # Whatever it is, training goes on.
                self._say(f"no snapshot was uploaded: {_plain(error)}")

    def _send(self, entry):
        try:
            link = deliver(self._server, entry, self._say)
        except OSError as error:
            self._kept += 1
            self._say(f"no snapshot was uploaded: {error}")
            entry.release()
            self._spool.trim()
            if os.path.exists(entry.path):
                url = f"{self._server.url}/api/upload/"
                send = f"{SEND_LATER} --server {self._server.url}"
                self._say(f"later: {send}, or curl -T {entry.path} {url}", kind="later")
            return None
        _say(link)
        return link

    def _send_what_waits(self):
        """The server is there: what an earlier time left is sent too."""
        for entry in self._spool.waiting():
            if not entry.claim():
                continue
            if entry.about.get("server") != self._server.url or "refused" in entry.about:
                entry.release()
            elif self._send(entry):
                self._kept = max(0, self._kept - 1)
            else:
                return


# --- live


class _Live:
    """Tells the dashboard what each step leaves in memory, from a thread of its own.

    The training's thread reads the counters and puts them aside, which takes microseconds. It never
    waits for the other one, and they share no lock.
    """

    def __init__(self, server, torch, about, seconds, say):
        """`about` is asked in the thread, for what a live run is called and which rank it is."""
        self.id = None
        # What the server wishes to see: a number, and how many steps. The training's thread sets it
        # back to None.
        self.asked = None
        self._server = server
        self._torch = torch
        self._about = about
        self._seconds = min(max(0.01, seconds), 3600)
        self._say = say
        self._device = None
        # Steps come together in the first; the thread keeps in the second what is not sent.
        self._fresh = collections.deque(maxlen=LIVE_ROWS)
        self._rows = collections.deque()
        self._noted = self._sent = 0
        self._numbers = set()
        self._warnings = set()
        self._ending = self._deadline = None
        self._is_over = self._is_blind = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidemark-live", daemon=True)
        self._thread.start()

    # In the training's thread:

    def step(self, step):
        """Note what is in memory now."""
        if self._is_over or self._is_blind:
            return
        try:
            if self._device is None and not self._has_device():
                return
            # The cheapest that PyTorch has: one call, and not flattened as memory_stats() is.
            stats = self._torch.cuda.memory_stats_as_nested_dict(self._device)
            allocated = stats["allocated_bytes"]["all"]
            row = (
                step,
                time.time_ns() // 1_000_000,
                allocated["current"],
                allocated["peak"],  # Never reset: the program may read it too.
                stats["reserved_bytes"]["all"]["current"],
                stats["num_alloc_retries"],
                stats["num_ooms"],
            )
            self._fresh.append(row)
            self._noted += 1
        except Exception as error:  # Whatever it is, training goes on.
            self._is_blind = True  # How it ends is told all the same.
            self._say(f"live: no more steps: {_plain(repr(error))}")

    def end(self, outcome, what):
        """Have the rest sent, and how it ended. Does not wait for that."""
        if self._ending is None:
            with contextlib.suppress(Exception):
                if self._device is None:
                    self._has_device()  # It ends before its first step.
            self._ending = {"outcome": outcome, "what": what}
            self._wake.set()

    def join(self):
        """Wait for what end() began, but not long.

        The time begins now: the last snapshot, which no other thread runs beside, takes longer.
        """
        self._deadline = time.monotonic() + LIVE_WAIT
        self._thread.join(LIVE_WAIT)
        if not self._is_over:
            self._is_over = True
            lost = self._lost(len(self._rows) + len(self._fresh))
            self._say(f"live: the server does not know of the end, nor of {lost}")

    def _has_device(self):
        """Whether the program uses a device by now; asking for one would begin to use it."""
        cuda = self._torch.cuda
        if not cuda.is_initialized():
            self._say("live: nothing is reported before the program uses CUDA", "live-cuda")
            return False
        self._device = cuda.current_device()  # Another thread has another one.
        return True

    # In its own thread:

    def _run(self):
        failures = again = 0
        while not self._is_over:
            self._pause(failures, again)
            try:
                self._send()
                failures = again = 0
            except OSError as error:
                failures += 1
                again = getattr(error, "again", None) or 0
                self._failed(error)
            except Exception as error:  # Whatever it is, training goes on.
                self._stop(repr(error))
            if self._deadline is not None and time.monotonic() > self._deadline:
                return

    def _pause(self, failures, again):
        if self._ending:
            time.sleep(min(0.1 * failures, 0.5))
        elif failures:
            pause = max(max(self._seconds, 0.5) * 2 ** min(failures, 10), again)
            self._wake.wait(min(pause, LIVE_PAUSE) * random.uniform(0.7, 1))  # Not all at once.
        else:
            self._wake.wait(self._seconds)

    def _send(self):
        """Send what came together, and how it ended, if it did."""
        ending = self._ending  # First: no step comes after it.
        self._take()
        if self.id is None and self._device is not None:
            self._begin()
        while self._rows and not self._is_over:
            rows = list(itertools.islice(self._rows, LIVE_BATCH))
            answer = self._post({"steps": rows}, self.id, "steps")
            self._sent += len(rows)
            for _ in rows:
                self._rows.popleft()
            self._obey(answer)
            self._take()
        if ending and not self._is_over:
            if self.id is not None:
                self._post_end(ending)
            self._is_over = True
            if self._sent < self._noted:
                self._say(f"live: the server was away too long for {self._lost(0)}")

    def _take(self):
        """Take what came together; the oldest go where there are too many."""
        while self._fresh:
            self._rows.append(self._fresh.popleft())
            if len(self._rows) > LIVE_ROWS:
                self._rows.popleft()

    def _begin(self):
        about = {**self._about(), "device": self._device}
        answer = self._post({**about, "limit": _limit(self._torch, self._device)})
        self.id = _id(answer, "live")
        page = answer.get("page")
        is_link = isinstance(page, str) and page.startswith(("http://", "https://"))
        _say(f"live: {_plain(page) if is_link else self._server.link(self.id, 'live')}")

    def _post_end(self, ending):
        try:
            self._post(ending, self.id, "end")
        except Refused as error:
            if error.status != 410:  # It knows already: only its answer was lost.
                raise

    def _post(self, document, *path):
        deadline = self._deadline
        left = LIVE_TIMEOUT if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise OSError("the time is over")
        return self._server.live(document, *path, timeout=min(left, LIVE_TIMEOUT))

    def _obey(self, answer):
        """What the server says of the steps that it got."""
        warnings = answer.get("warnings")
        for warning in warnings if isinstance(warnings, list) else ():
            warning = _plain(warning)
            # Its numbers change with each step; what stands before them says what it is about.
            kind = re.split(r"\d", warning, maxsplit=1)[0] or warning
            if kind not in self._warnings and len(self._warnings) < LIVE_WARNINGS:
                self._warnings.add(kind)
                _say(f"live: {warning}")
        capture = answer.get("capture")
        if isinstance(capture, dict) and self.asked is None:
            number, steps = capture.get("id"), capture.get("steps")
            is_one = type(number) is int and type(steps) is int and steps > 0
            if is_one and number not in self._numbers:
                self._numbers.add(number)
                self.asked = (number, steps)

    def _failed(self, error):
        if isinstance(error, Refused) and error.is_final:
            self._stop(_plain(error))
        elif not self._ending:
            kept = f"the newest {LIVE_ROWS:,} steps are kept"
            self._say(f"live: the server is away ({_plain(error)}): {kept}", "live-away")

    def _stop(self, why):
        """Not to begin again."""
        self._is_over = True
        self._say(f"live: it stopped: {_plain(why)}", "live-stop")

    def _lost(self, left):
        dropped = self._noted - self._sent - left
        return f"{dropped + left} of {self._noted} steps ({dropped} were dropped, the oldest)"


def _limit(torch, device):
    """Bytes of the device that this process may use; None where that is not known."""
    with contextlib.suppress(Exception):
        total = torch.cuda.get_device_properties(device).total_memory
        fraction = getattr(torch.cuda, "get_per_process_memory_fraction", None)
        return int(total * fraction(device)) if fraction else total
    return None


# --- recording


class Capture(contextlib.ContextDecorator):
    """Records while it is entered, or from start() to close(); see the module."""

    def __init__(
        self,
        server=None,
        name=None,
        token=None,
        every=None,
        output=None,
        compress=None,
        max_entries=None,
        labels=None,
        live=None,
        live_seconds=LIVE_SECONDS,
        record=None,
        pinned=None,
    ):
        """
        server: the dashboard's URL; without it snapshots are only written to `output`.
        name: what the runs are called; the rank and the reason are added.
        token: the access token.
        every: also upload each time so many steps are done; call step() after each.
        output: a file to keep the last snapshot in; of several ranks each has its own.
        compress: pack with gzip before sending; worth it where the network is slow.
        max_entries: events that are kept.
        labels: of each run, such as {"config": "qlora"}; ValueError for what is no label.
        live: tell the server what is in memory after each step; call step() after each.
        live_seconds: between two requests of that.
        record: False leaves PyTorch's recorder off, and nothing is uploaded unless the page of the
            live run asks for it.
        pinned: also record the allocator of pinned host memory; torch 2.14 and later can.

        What is not given comes from the environment: TIDEMARK_SERVER and so on.
        """
        self.server = server or _setting("SERVER")
        self.name = name or _setting("NAME") or "snapshot"
        self.every = max(0, _number("EVERY", 0) if every is None else every)
        self.output = output
        self.compress = _number("COMPRESS", 0) if compress is None else compress
        self.max_entries = max_entries or _number("MAX_ENTRIES", MAX_ENTRIES)
        self.labels = _all_labels(labels)
        self.live = bool(_number("LIVE", 0) if live is None else live)
        self.live_seconds = float(live_seconds)
        self.record = bool(_number("RECORD", 1) if record is None else record)
        self.pinned = bool(_number("PINNED", 0) if pinned is None else pinned)
        self.steps = 0
        self.links = []
        self._token = token
        self._say = _Once()
        self._is_on = False
        self._awaited = None
        self._process = None
        self._sender = None
        self._live = None
        self._until = None
        self._known = None
        self._launch = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, error, traceback):
        self.close(error)
        return False

    def start(self):
        """Begin to record, or as soon as the program uses CUDA, if it does not yet."""
        try:
            if not self.server and not self.output:
                raise ValueError("neither TIDEMARK_SERVER nor an output file is set")
            if not self.record and not self.live:
                raise ValueError("it is switched off")
            self._server = Server(self.server, self._token) if self.server else None
            import torch

            if self._process not in (None, os.getpid()):  # Forked: the threads are not here.
                self._sender = self._live = None
            if self._live is not None:  # What an earlier start left did not come to its end.
                self._live.end("out_of_memory" if self._had_oom else "failed", None)
            self._finish()
            self.steps, self.links, self._until = 0, [], None
            self._had_oom = self._is_on = False
            self._process = os.getpid()
            self._spool = Spool(say=self._say)
            self._nth = _starts[self.name] = _starts[self.name] + 1
            self._torch = torch
            atexit.register(self._finish)
            if self.live:
                self._begin_live()
            self._await_cuda()
        except Exception as error:  # Whatever it is, training goes on.
            self._say(f"nothing is recorded: {_plain(error)}")

    def _await_cuda(self):
        """Record from the moment on in which the program begins to use CUDA, or from now on.

        Turning the recorder on begins to use CUDA. Done any earlier, it would fix which cards are
        seen, and take CUDA from the workers that the program forks.
        """
        self._awaited = awaited = object()

        def begin():
            # Not in a worker that was forked, and only once: after a failure PyTorch tries again.
            if self._awaited is awaited and os.getpid() == self._process:
                self._awaited = None
                self._begin_recording()

        # Called before the first allocation. What runs there may use CUDA.
        getattr(self._torch.cuda, "_lazy_call", lambda call: call())(begin)

    def _begin_recording(self):
        try:
            if self.record:
                self._turn_recorder_on()
            # Called inside the allocator, while everything is still alive: an exception handler
            # would see what is left after the stack was unwound.
            attach = getattr(self._torch._C, "_cuda_attach_out_of_memory_observer", None)
            if attach is not None:
                attach(self._on_oom)
            self._is_on = self.record
        except Exception as error:  # Whatever it is, training goes on.
            self._say(f"nothing is recorded: {_plain(error)}")

    def close(self, error=None):
        """Record the end, or the error that ends it, and wait until all is sent."""
        if self._process is None or os.getpid() != self._process:
            return
        is_oom = isinstance(error, getattr(self._torch.cuda, "OutOfMemoryError", ()))
        is_end = error is None or isinstance(error, SystemExit) and not error.code
        self._end_live(None if is_end else type(error), is_oom)
        if self._until is not None:
            self._send_asked()
        if not is_oom:
            self.send("end" if is_end else "failed")
        elif not self._had_oom:
            self.send("oom")
        if self._is_on:
            with contextlib.suppress(Exception):
                self._torch.cuda.memory._record_memory_history(enabled=None)
        self._is_on, self._awaited = False, None
        self._finish()

    def step(self):
        """Say that a step is done."""
        self.steps = steps = self.steps + 1
        if self._live is not None:
            self._step_live(steps)
        if steps == 1 or self.every and steps % self.every == 0:
            self._on_step(steps)

    def send(self, why):
        """Dump the history now, to be uploaded in the background. `links` has what was."""
        if os.getpid() != self._process:
            return
        if self._is_on:
            self._send(why, self.labels)
        elif self._awaited is not None and self.record:
            self._say("nothing is recorded before this process uses CUDA", "cuda")

    def _send(self, why, labels):
        try:
            rank, world = self._where()
            name = self._file_name(rank, why)
            if self._server is None:
                self._dump_to(_of_rank(self.output, rank, world))
                return
            moment = "end" if why in ("end", "oom", "failed") else why
            about = {"name": name, "server": self._server.url, "rank": rank, "labels": labels}
            about["project"] = self._server.project
            entry = self._spool.add(about, self._torch.cuda.memory._dump_snapshot)
            if self.output:
                self._copy_to(_of_rank(self.output, rank, world), entry)
            self._in_background(lambda: self._prepared(entry, world, moment))
        except Exception as error:  # Whatever it is, training goes on.
            self._say(f"no snapshot was taken: {_plain(error)}")

    def _prepared(self, entry, world, moment):
        """What takes time, in the background: pack it, find out which job it is of."""
        entry.hold()
        if not os.path.exists(entry.path):  # It was dropped while it waited.
            entry.remove()
            return None
        if self.compress:
            entry.pack()
        if world > 1 and entry.about["rank"] is not None:
            key = self._key(moment)
            if key:
                name = self._shown_name()
                name = name if moment == "end" else f"{name}-{_printable(moment)[:60]}"
                with contextlib.suppress(OSError):
                    entry.note(job={"name": name, "key": key})
        return entry

    def _key(self, moment):
        """By what all ranks find the job of a moment; None where they cannot."""
        self._ask_launch()
        if not self._launch:
            self._say("each rank is a run by itself: set TIDEMARK_JOB, to the same in all")
            return None
        key = "\n".join((*self._launch, self.name, str(self._nth), moment))
        return hashlib.sha256(key.encode()).hexdigest()

    def _on_step(self, steps):
        if steps == 1 and self._is_on and self._server is not None and self._where()[1] > 1:
            # Early: at the end the rank that could tell the others may be gone.
            with contextlib.suppress(Exception):
                self._in_background(self._ask_launch)
        if self.every and steps % self.every == 0:
            self.send(f"step{steps}")

    def _where(self):
        """The rank and how many there are: also once the process group is gone."""
        if self._known is None or self._known[1] == 1:
            self._known = _rank_and_world(self._torch)
        return self._known

    def _ask_launch(self):
        if self._launch is None:
            self._launch = _launch(self._torch)

    def _in_background(self, task):
        if self._sender is None:
            self._sender = _Sender(self._server, self._spool, self._say)
            self.links = self._sender.links
        self._sender.put(task)

    def _finish(self):
        atexit.unregister(self._finish)
        if os.getpid() != self._process:
            return
        if self._live is not None:
            # Unless close() did: the program ends without it, perhaps of an error.
            kind = getattr(sys, "last_type", None)
            out_of_memory = getattr(self._torch.cuda, "OutOfMemoryError", ())
            is_oom = isinstance(kind, type) and issubclass(kind, out_of_memory)
            self._end_live(kind, is_oom or self._had_oom)
        live, self._live = self._live, None
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.finish(_number("WAIT", WAIT))
        if live is not None:
            live.join()

    def _begin_live(self):
        try:
            if self._server is None:
                raise ValueError("no server is set")
            about = self._live_about
            self._live = _Live(self._server, self._torch, about, self.live_seconds, self._say)
        except Exception as error:  # Whatever it is, training goes on.
            self._say(f"live: it is off: {_plain(error)}")

    def _live_about(self):
        rank, world = self._where()
        is_one = rank is not None and world > 1
        return {
            "name": self._shown_name(),
            "rank": rank if is_one else None,
            "ranks": world if is_one else None,
            "job": self._key("end") if is_one else None,  # That of the last snapshots.
            "labels": self.labels,
        }

    def _step_live(self, steps):
        if os.getpid() != self._process:
            return  # A worker that was forked.
        self._live.step(steps)
        if self._live.asked is not None:
            self._on_asked(steps)

    def _on_asked(self, steps):
        """The server asked for a snapshot of some steps: let them pass, then send it."""
        if self._until is None:
            self._until = steps + self._live.asked[1]
            self._is_for_live = not self._is_on and not self._is_history_on()
            try:
                if self._is_for_live:
                    self._turn_recorder_on()
            except Exception as error:  # Whatever it is, training goes on.
                self._say(f"no snapshot was taken: {_plain(error)}")
                self._until = self._live.asked = None
        elif steps >= self._until:
            self._send_asked()

    def _send_asked(self):
        number, _ = self._live.asked
        # One makes room where there are as many as a run can have.
        labels = dict(list(self.labels.items())[: MOST_LABELS - 1])
        self._send(f"live{number}", {**labels, "live": self._live.id})
        if self._is_for_live:
            with contextlib.suppress(Exception):
                self._torch.cuda.memory._record_memory_history(enabled=None)
        self._until = self._live.asked = None

    def _turn_recorder_on(self):
        turn_on = self._torch.cuda.memory._record_memory_history
        if self.pinned:
            try:
                turn_on(max_entries=self.max_entries, record_pinned_host_memory=True)
                return
            except TypeError:  # It does not know the argument, and did nothing.
                self._say("pinned memory is not recorded: that takes torch 2.14 or later")
        turn_on(max_entries=self.max_entries)

    def _is_history_on(self):
        """Whether the program records by itself."""
        with contextlib.suppress(Exception):
            return self._torch._C._cuda_isHistoryEnabled()
        return False

    def _end_live(self, kind, is_oom):
        """Tell how the live run ended: of the error only what it is called."""
        if self._live is not None:
            outcome = "out_of_memory" if is_oom else "failed" if kind else "done"
            self._live.end(outcome, getattr(kind, "__name__", None))

    def _dump_to(self, path, dump=None):
        """A file that is whole or not there."""
        try:
            (dump or self._torch.cuda.memory._dump_snapshot)(path + ".part")
            os.replace(path + ".part", path)
        finally:
            with contextlib.suppress(OSError):
                os.remove(path + ".part")

    def _copy_to(self, path, entry):
        try:
            self._dump_to(path, lambda part: shutil.copyfile(entry.path, part))
        except OSError as error:
            self._say(f"no snapshot was written: {_plain(error)}")

    def _file_name(self, rank, why):
        parts = [self.name] + ([f"rank{rank}"] if rank is not None else [])
        name = "-".join(parts + ([why] if why != "end" else []))
        return re.sub(r"[/\\]", "_", _printable(name)).lstrip(".") + ".pickle"

    def _shown_name(self):
        """What a job and a live run are called: the server takes no empty name."""
        return _printable(self.name).strip() or "snapshot"

    def _on_oom(self, *_):
        if not self._had_oom:
            self._had_oom = True
            self.send("oom")


# How often captures of a name were started here: the same in all ranks of a program.
_starts = collections.Counter()


def _of_rank(path, rank, world):
    """Of several ranks each writes a file of its own."""
    stem, dot = os.path.splitext(path)
    return f"{stem}-rank{rank}{dot}" if world > 1 and rank is not None else path


# --- the command line


def _spool_main(args):
    parser = argparse.ArgumentParser(
        prog="tidemark_capture spool", description="Snapshots that wait for their server."
    )
    parser.add_argument("--send", action="store_true", help="send those that are for this server")
    parser.add_argument("--server", default=_setting("SERVER"), metavar="URL")
    parser.add_argument("--spool", metavar="FOLDER", help="by default TIDEMARK_SPOOL")
    options = parser.parse_args(args)
    spool = Spool(options.spool)
    if not options.send:
        for entry in spool.waiting():
            if entry.claim():
                about = entry.about
                why = f" (was refused: {about['refused']})" if "refused" in about else ""
                where = about.get("server")
                if about.get("project"):
                    where = f"{where}, project {about['project']}"
                print(f"{about['name']} {entry.size() >> 20} MiB for {where}{why}")
                entry.release()
        return 0
    if not options.server:
        parser.error("--server or TIDEMARK_SERVER is needed")
    server = Server(options.server)
    say = _Once()
    failed = 0
    for entry in spool.waiting():
        # One for another server is not shown to this one.
        if entry.claim() and entry.about.get("server") == server.url:
            try:
                print(deliver(server, entry, say))
            except OSError as error:
                failed += 1
                _say(f"{entry.about['name']} was not sent: {error}")
        entry.release()
    return 1 if failed else 0


def _count_steps(capture):
    """A script that knows of no capture: each step of an optimizer is one."""
    try:
        # Not to be reached by its name from `torch`.
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(lambda *_: capture.step())
    except Exception as error:  # Whatever it is, training goes on.
        _say(f"no steps are seen: {_plain(error)}")


def main():
    """Run a script inside a capture."""
    if sys.argv[1:2] == ["spool"]:
        sys.exit(_spool_main(sys.argv[2:]))
    parser = argparse.ArgumentParser(
        description="Record the memory history of a PyTorch script and hand it to Tidemark.",
        epilog="`spool` in place of a script lists what waits for a server; see `spool --help`.",
    )
    parser.add_argument("--server", default=_setting("SERVER"), metavar="URL")
    parser.add_argument("--name", help="what the run is called; by default the script's name")
    parser.add_argument("--output", metavar="FILE", help="also keep the snapshot in a file")
    parser.add_argument(
        "--compress", action="store_true", default=None, help="pack with gzip before sending"
    )
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a label of each run, as often as you like; in CI, branch and commit are set",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        default=None,
        help="show the memory after each step of an optimizer while the script runs",
    )
    parser.add_argument(
        "--no-record",
        action="store_false",
        default=None,
        dest="record",
        help="with --live: upload only what the page of the live run asks for",
    )
    parser.add_argument(
        "--pinned",
        action="store_true",
        default=None,
        help="also record pinned host memory (torch 2.14 or later)",
    )
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.server and not options.output:
        parser.error("--server or --output is needed")
    stem = os.path.splitext(os.path.basename(options.script))[0]
    try:
        capture = Capture(
            options.server,
            name=options.name or _setting("NAME") or stem,
            output=options.output,
            compress=options.compress,
            labels=dict(map(_label_of, options.label)),
            live=options.live,
            record=options.record,
            pinned=options.pinned,
        )
    except ValueError as error:
        parser.error(str(error))
    sys.argv = [options.script] + options.args
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    with capture:
        if capture._live is not None or capture.every and capture._process is not None:
            _count_steps(capture)
        runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
