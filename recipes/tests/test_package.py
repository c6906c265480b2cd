"""What `pip install` makes of the folder."""

import ast
import importlib.metadata
import importlib.util
import pathlib
import shutil
import sys
import unittest

from case import RECIPES, Case

def can_build():
    """Whether a wheel can be built with what is here: setuptools can from 70.1 on."""
    if not all(map(importlib.util.find_spec, ("pip", "setuptools"))):
        return False
    version = importlib.metadata.version("setuptools").split(".")[:2]
    return importlib.util.find_spec("wheel") or tuple(map(int, version)) >= (70, 1)


class Package(Case):
    @unittest.skipUnless(can_build(), "pip, and setuptools 70.1 or wheel, are not there")
    def test_it_installs_without_a_network_and_runs(self):
        source = self.folder / "source"
        shutil.copytree(RECIPES, source, ignore=shutil.ignore_patterns("tests", "build", "*.egg*"))
        target = self.folder / "installed"
        options = ("--no-build-isolation", "--no-deps", "--no-index", "--target", target)
        process = self.python("-m", "pip", "install", *map(str, options), str(source))
        log = "".join(process.communicate())
        self.assertEqual(process.returncode, 0, log)
        installed = {path.name for path in target.glob("tidemark_*.py")}
        modules = {path.name for path in source.glob("tidemark_*.py")}
        self.assertEqual((installed, len(modules)), (modules, 3))
        process = self.python("-m", "tidemark_capture", "spool", PYTHONPATH=str(target))
        self.assertEqual((process.communicate(), process.returncode), (("", ""), 0))
        self.assertTrue((target / "bin/tidemark-capture").exists())

    def test_it_is_python_3_9_and_of_the_standard_library(self):
        text = pathlib.Path(RECIPES, "tidemark_capture.py").read_text()
        tree = ast.parse(text, feature_version=(3, 9))
        nodes = list(ast.walk(tree))
        imports = [node for node in nodes if isinstance(node, ast.Import)]
        names = {alias.name for node in imports for alias in node.names}
        names |= {node.module.split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
        self.assertGreater(len(names), 10)
        if sys.version_info >= (3, 10):
            foreign = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
            self.assertEqual(foreign, {"torch"})
