"""A server that answers uploads as Tidemark does, and fails as it is told."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Dashboard:
    """Runs while it is entered. `faults` are used up in turn, one for each request."""

    def __init__(self):
        self.runs = []
        self.jobs = {}
        # Live runs, and what the next answers to their steps say.
        self.lives = []
        self.asked = None
        self.warnings = []
        self.tokens = set()
        self.projects = set()
        self.requests = []
        self.faults = []
        # A fault of every request to a path with these letters.
        self.always = {}
        self.lock = threading.Lock()
        self._announced = {}
        self._server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    def names(self):
        return sorted(run["name"] for run in self.runs)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self, port=0):
        dashboard = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                dashboard.answer(self)

            do_GET = do_PUT = do_PATCH = do_POST

        class Listener(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *about):
                if not isinstance(sys.exc_info()[1], OSError):  # Who asked may be gone.
                    super().handle_error(*about)

        self._server = Listener(("127.0.0.1", port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self):
        """Away: its port refuses. Returns the port."""
        port = self._server.server_port
        self._server.shutdown()
        self._server.server_close()
        return port

    def answer(self, request):
        with self.lock:
            self.requests.append(f"{request.command} {request.path}")
            self.tokens.add(request.headers.get("Authorization"))
            self.projects.add(request.headers.get("Tidemark-Project"))
            fault = self.faults.pop(0) if self.faults else None
            for part, always in self.always.items():
                fault = always if part in request.path else fault
        if fault == "close":
            request.rfile.read(10)
            request.close_connection = True
            request.connection.close()
            return
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        if fault == "half":
            request.wfile.write(b'HTTP/1.0 200 OK\r\nContent-Length: 999\r\n\r\n{"run": ')
        elif fault == "nonsense":
            self.reply(request, 200, b"<html>Please sign in</html>")
        elif fault == "other":
            self.reply(request, 200, b'{"upload": "../../x", "id": null, "run": []}')
        elif isinstance(fault, dict):
            self.reply(request, fault["status"], b"", fault["headers"])
        elif fault:
            problem = {"detail": f"fault {fault}", "status": fault}
            self.reply(request, fault, json.dumps(problem).encode())
        else:
            with self.lock:
                status, document = self.take(request.path, body)
            self.reply(request, status, b"" if status == 204 else json.dumps(document).encode())

    def take(self, path, body):
        if path == "/api/jobs":
            asked = json.loads(body)
            known = asked["key"] in self.jobs
            job = self.jobs.setdefault(
                asked["key"], {"id": f"job_{len(self.jobs)}", "name": asked["name"]}
            )
            return (200 if known else 201), job
        if path == "/api/uploads":
            self._announced[f"upl_{len(self._announced)}"] = json.loads(body)
            return 201, {"upload": f"upl_{len(self._announced) - 1}"}
        if path.endswith("/labels"):
            run = self.runs[int(path.split("/")[-2][len("run_") :]) - 1]
            run["labels"].update(json.loads(body)["labels"])
            return 200, {"id": path.split("/")[-2]}
        if path.startswith("/api/live"):
            return self.take_live(path.split("/")[3:], json.loads(body))
        run = self._announced[path.rsplit("/", 1)[1]]
        assert run["size"] == len(body), path
        self.runs.append({**run, "body": body, "labels": {}})
        return 201, {"run": {"id": f"run_{len(self.runs)}"}, "known": False}

    def take_live(self, path, document):
        if not path:
            self.lives.append({**document, "steps": [], "end": None})
            live = f"live_{len(self.lives)}"
            return 201, {"live": live, "page": f"{self.url}/live/{live}"}
        live = self.lives[int(path[0][len("live_") :]) - 1]
        if live["end"]:
            return 410, {"detail": "it has ended", "status": 410}
        if path[1] == "end":
            live["end"] = document
            return 204, None
        rows = document["steps"]
        assert 0 < len(rows) <= 1000 and all(type(n) is int for row in rows for n in row), rows
        live["steps"] += rows
        return 200, {"capture": self.asked, "warnings": self.warnings}

    @staticmethod
    def reply(request, status, body, headers=()):
        request.send_response(status)
        for name, value in headers:
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
