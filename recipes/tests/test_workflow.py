"""What the example for GitHub Actions says to a pull request."""

import pathlib
import re

from case import RECIPES, Case


class Workflow(Case):
    def test_only_the_gate_writes_to_the_pull_request(self):
        text = pathlib.Path(RECIPES, "github-actions.yml").read_text()
        commands = re.findall(r"^ +(tidemark \w+)((?:.*\\\n)*.*)$", text, re.MULTILINE)
        names = [command for command, _ in commands]
        self.assertEqual(names, ["tidemark gate", "tidemark push"])
        writing = [command for command, options in commands if "--comment" in options]
        self.assertEqual(writing, ["tidemark gate"])
        self.assertEqual(text.count("GITHUB_TOKEN"), 1)
