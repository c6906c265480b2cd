"""What the example for GitHub Actions says to a pull request."""

import os
import pathlib
import re
import subprocess
import textwrap

from case import RECIPES, Case

#: In place of Python: a program that goes well and writes the outputs named in MADE.
PYTHON = '#!/bin/sh\ncase " $MADE " in *" $3 "*) echo new > "$3";; esac\n'
#: In place of Tidemark: says what it was given to read.
TIDEMARK = "#!/bin/sh\ncat base.pickle new.pickle >> judged\n"


def workflow():
    return pathlib.Path(RECIPES, "github-actions.yml").read_text()


def scripts():
    """The shell scripts of the steps, in order."""
    found = re.findall(r"^        run: \|\n((?:          .*\n|\n)+)", workflow(), re.MULTILINE)
    return list(map(textwrap.dedent, found))


class Workflow(Case):
    def run_job(self, made):
        """The steps as a runner runs them, where an earlier job left its snapshots."""
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        for name, text in (("python3", PYTHON), ("tidemark", TIDEMARK)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        for name in ("base.pickle", "new.pickle"):
            (self.folder / name).write_text("old\n")
        (self.folder / "judged").write_text("")
        path = os.pathsep.join((str(tools), os.environ["PATH"]))
        env = {**os.environ, "PATH": path, "MADE": made, "GITHUB_STEP_SUMMARY": "summary"}
        for script in scripts():
            job = {"cwd": self.folder, "env": env, "capture_output": True}
            if subprocess.run(["bash", "-e", "-c", script], **job).returncode:
                return None
        return (self.folder / "judged").read_text()

    def test_a_snapshot_of_an_earlier_job_is_never_judged(self):
        self.assertEqual(self.run_job("base.pickle new.pickle"), "new\n" * 4)
        for made in ("", "base.pickle", "new.pickle"):
            self.assertIsNone(self.run_job(made), made)
            self.assertEqual((self.folder / "judged").read_text(), "", made)

    def test_snapshots_are_removed_before_anything_can_fail(self):
        first = workflow().split("    steps:\n")[1].split("      - ")[1]
        self.assertIn("rm -f base.pickle new.pickle\n", first)
        last = workflow().split("      - name: ")[-1]
        self.assertIn("steps.gate.outcome != 'skipped'", last)

    def test_only_the_gate_writes_to_the_pull_request(self):
        text = workflow()
        commands = re.findall(r"^ +(tidemark \w+)((?:.*\\\n)*.*)$", text, re.MULTILINE)
        names = [command for command, _ in commands]
        self.assertEqual(names, ["tidemark gate", "tidemark push"])
        writing = [command for command, options in commands if "--comment" in options]
        self.assertEqual(writing, ["tidemark gate"])
        self.assertEqual(text.count("GITHUB_TOKEN"), 1)
