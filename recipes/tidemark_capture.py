#!/usr/bin/env python3
"""Record the memory history of a PyTorch program and hand it to Tidemark.

Standard library only: copy this file beside your training script. Three ways to use it.

Around a script, without touching it:

    python tidemark_capture.py --server http://tidemark:7878 train.py --lr 1e-4
    python tidemark_capture.py --output snapshot.pickle train.py --lr 1e-4

In the program, at the end, on an out-of-memory error, or every n steps:

    from tidemark_capture import Capture

    with Capture("http://tidemark:7878", name="llama-lora", every=100) as capture:
        for batch in batches:
            train_step(batch)
            capture.step()

By hand, with a file that is there already:

    curl -T snapshot.pickle http://tidemark:7878/api/upload/
    curl -H "Authorization: Bearer $TIDEMARK_TOKEN" -T snapshot.pickle \
        https://tidemark.example.com/api/upload/

A capture never makes training fail: what goes wrong with an upload is said on stderr, together with
the command that uploads the file later.
"""

import argparse
import contextlib
import gzip
import json
import os
import runpy
import shutil
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

# The recorder keeps a ring of this many events. A training step has some thousands; a ring that is
# too small loses the beginning, and with it the verdict on leaks.
MAX_ENTRIES = 1_000_000

# Seconds that the server may take to answer: it parses while it receives.
TIMEOUT = 600


def upload(path, server, token=None, name=None):
    """Upload a snapshot and return the server's answer, a dictionary with the run.

    Raises OSError when the server cannot be reached or refuses the file.
    """
    name = name or os.path.basename(path)
    url = f"{server.rstrip('/')}/api/upload/{urllib.parse.quote(name, safe='')}"
    with open(path, "rb") as file:
        request = urllib.request.Request(url, data=file, method="PUT")
        request.add_header("Content-Type", "application/octet-stream")
        request.add_header("Content-Length", str(os.path.getsize(path)))
        token = token or os.environ.get("TIDEMARK_TOKEN")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise OSError(_reason(error)) from error


def _reason(error):
    """What a problem document says, or the status."""
    try:
        return json.load(error)["detail"]
    except (ValueError, KeyError, TypeError):
        return f"the server answered {error.code}"


class Capture:
    """Records while it is entered; see the module."""

    def __init__(
        self,
        server=None,
        name="snapshot",
        token=None,
        every=None,
        output=None,
        compress=False,
        max_entries=MAX_ENTRIES,
    ):
        """
        server: the dashboard's URL; without it snapshots are only written to `output`.
        name: what the runs are called; the rank and the reason are added.
        token: the access token; by default the variable TIDEMARK_TOKEN.
        every: also upload each time so many steps are done; call step() after each.
        output: a file to keep the last snapshot in.
        compress: pack with gzip before sending; worth it where the network is slow.
        max_entries: events that are kept.
        """
        if not server and not output:
            raise ValueError("a capture needs a server to upload to, or an output file")
        self.server = server
        self.name = name
        self.token = token
        self.every = every
        self.output = output
        self.compress = compress
        self.max_entries = max_entries
        self.steps = 0
        self.links = []
        self._had_oom = False

    def __enter__(self):
        import torch

        self._torch = torch
        torch.cuda.memory._record_memory_history(max_entries=self.max_entries)
        # Called inside the allocator, while everything is still alive: an exception handler would
        # see what is left after the stack was unwound.
        attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None:
            attach(self._on_oom)
        return self

    def __exit__(self, kind, error, traceback):
        out_of_memory = getattr(self._torch.cuda, "OutOfMemoryError", ())
        if isinstance(error, out_of_memory):
            if not self._had_oom:
                self.send("oom")
        else:
            self.send("failed" if error is not None else "end")
        with contextlib.suppress(Exception):
            self._torch.cuda.memory._record_memory_history(enabled=None)
        return False

    def step(self):
        """Say that a step is done."""
        self.steps += 1
        if self.every and self.steps % self.every == 0:
            self.send(f"step{self.steps}")

    def send(self, why):
        """Dump the history now and upload it; return the run's address, or None."""
        name = self._file_name(why)
        folder = tempfile.mkdtemp(prefix="tidemark-")
        path = os.path.join(folder, name)
        try:
            self._torch.cuda.memory._dump_snapshot(path)
            if self.output:
                shutil.copyfile(path, self.output)
            if self.compress:
                path = _packed(path)
            if not self.server:
                shutil.rmtree(folder, ignore_errors=True)
                return None
            answer = upload(path, self.server, self.token, os.path.basename(path))
            link = f"{self.server.rstrip('/')}/runs/{answer['run']['id']}"
        except Exception as error:  # Whatever it is, training goes on.
            self._complain(error, path)
            return None
        shutil.rmtree(folder, ignore_errors=True)
        print(f"tidemark: {link}", file=sys.stderr)
        self.links.append(link)
        return link

    def _file_name(self, why):
        rank = os.environ.get("RANK")
        parts = [self.name] + ([f"rank{rank}"] if rank else []) + ([why] if why != "end" else [])
        return "-".join(parts).replace("/", "_") + ".pickle"

    def _on_oom(self, *_):
        if not self._had_oom:
            self._had_oom = True
            self.send("oom")

    def _complain(self, error, path):
        print(f"tidemark: no snapshot was uploaded: {error}", file=sys.stderr)
        if os.path.exists(path) and self.server:
            url = f"{self.server.rstrip('/')}/api/upload/"
            print(f"tidemark: later: curl -T {path} {url}", file=sys.stderr)


def _packed(path):
    packed = path + ".gz"
    with open(path, "rb") as plain, gzip.open(packed, "wb", compresslevel=1) as file:
        shutil.copyfileobj(plain, file, 1 << 20)
    os.remove(path)
    return packed


def main():
    """Run a script inside a capture."""
    parser = argparse.ArgumentParser(
        description="Record the memory history of a PyTorch script and hand it to Tidemark."
    )
    parser.add_argument("--server", default=os.environ.get("TIDEMARK_SERVER"), metavar="URL")
    parser.add_argument("--name", help="what the run is called; by default the script's name")
    parser.add_argument("--output", metavar="FILE", help="also keep the snapshot in a file")
    parser.add_argument("--compress", action="store_true", help="pack with gzip before sending")
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.server and not options.output:
        parser.error("--server or --output is needed")
    stem = os.path.splitext(os.path.basename(options.script))[0]
    sys.argv = [options.script] + options.args
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    with Capture(
        options.server,
        name=options.name or stem,
        output=options.output,
        compress=options.compress,
    ):
        runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
