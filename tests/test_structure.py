"""The shape of the code: imports go down, files stay small, what is public is told, the core stays light."""

from __future__ import annotations

import ast
import graphlib
import inspect
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import packlight

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "packlight"
MAX_LINES = 600

# From the bottom up. A module or package imports only from rows below its own.
ROWS: list[set[str]] = [
    {"atomic", "errors", "types"},
    {"jsonio", "media"},
    {"view"},
    {"formats", "models", "overflow", "store", "tokens"},
    {"laws", "budget", "transport"},
    {"journal", "provider", "driving"},
    {"summary", "reading", "rescue", "compaction"},
    {"layers", "ledger"},
    {"policy"},
    {"measure", "planning", "writers"},
    {"records", "retrieval", "outcome"},
    {"compactor"},
    {"oneshot"},
    {"replay", "integrations", "testing"},
    {"agent", "proxy"},
    {"cli"},
    {"__main__"},
]
SIDEWAYS = {("tokens", "models")}
"""The only edges allowed within a row."""
ROW_OF = {unit: row for row, units in enumerate(ROWS) for unit in units}
MAY_DEFER = {"cli", "__main__"}
"""Where a function may import: a command loads only what it needs."""


@dataclass(frozen=True)
class Edge:
    importer: str
    """Dotted module name without `packlight.`; empty for `packlight/__init__.py`."""
    imported: str
    line: int
    function: str
    """Name of the innermost function that the import stands in, empty at the top level."""

    def __str__(self) -> str:
        return f"{self.importer or 'packlight'}:{self.line} imports {self.imported or 'packlight'}"


def unit(module: str) -> str:
    return module.partition(".")[0]


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def sources() -> dict[str, tuple[Path, ast.Module]]:
    return {module_name(path): (path, ast.parse(path.read_bytes())) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def edges() -> tuple[Edge, ...]:
    return tuple(
        Edge(name, target, line, function)
        for name, (path, tree) in sources().items()
        for target, line, function in imports(name, path.name == "__init__.py", tree)
    )


def imports(module: str, is_package: bool, tree: ast.Module) -> list[tuple[str, int, str]]:
    """Every run-time import of a module of packlight: (target, line, function it stands in)."""
    found: list[tuple[str, int, str]] = []

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.orelse:
                visit(child, function)
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            function = getattr(node, "name", "lambda")
        found.extend((target, getattr(node, "lineno", 0), function) for target in targets(module, is_package, node))
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(tree, "")
    return found


def targets(module: str, is_package: bool, node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = ["packlight", *module.split(".")] if module else ["packlight"]
            package = package[: len(package) - node.level + is_package]
            base = ".".join([*package, *([base] if base else [])])
        names = [f"{base}.{alias.name}" if is_module(f"{base}.{alias.name}") else base for alias in node.names]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
        first = node.args[0] if node.args else None
        text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        names = [f"packlight{text}" if text.startswith(".") else text]
    else:
        return []
    inside = [name for name in names if name == "packlight" or name.startswith("packlight.")]
    return list(dict.fromkeys(name.removeprefix("packlight").removeprefix(".") for name in inside))


def is_module(dotted: str) -> bool:
    return dotted.startswith("packlight.") and dotted.removeprefix("packlight.") in sources()


def test_every_module_has_row() -> None:
    unknown = {unit(name) for name in sources() if name} - ROW_OF.keys()
    assert not unknown, f"give these a row in ROWS (tests/test_structure.py): {sorted(unknown)}"


def test_imports_only_go_down() -> None:
    wrong = []
    for edge in edges():
        importer, imported = unit(edge.importer), unit(edge.imported)
        if not importer:
            allowed = imported not in {"cli", "__main__"}
        elif not imported:
            allowed = importer in MAY_DEFER
        else:
            allowed = (
                importer == imported
                or (importer, imported) in SIDEWAYS
                or ROW_OF.get(imported, 99) < ROW_OF.get(importer, -1)
            )
        if not allowed:
            wrong.append(str(edge))
    assert not wrong, "\n".join(wrong)


def test_imports_form_no_cycle() -> None:
    graph: dict[str, set[str]] = {name: set() for name in sources()}
    for edge in edges():
        if edge.importer and edge.importer != edge.imported:
            graph[edge.importer].add(edge.imported)
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError and names the cycle


def test_imports_are_not_deferred() -> None:
    """The command line may, and a package may load a part of itself when it is asked for it. No cycle hides there:
    deferred imports count in the graph as well."""
    wrong = [
        str(edge)
        for edge in edges()
        if edge.function
        and unit(edge.importer) not in MAY_DEFER
        and (edge.importer, edge.function) != ("", "__getattr__")
        and not (edge.importer and edge.imported.startswith(f"{edge.importer}."))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from . import b\nfrom .b import x\nfrom ..errors import E\nimport packlight.view, json", None),
        ("def f():\n    from packlight.errors import E", [("errors", 2, "f")]),
        ("if TYPE_CHECKING:\n    from ..errors import E\nelse:\n    from .. import view", [("view", 4, "")]),
        ("import importlib\nimportlib.import_module('packlight.view')", [("view", 2, "")]),
    ],
)
def test_walker_sees_imports(
    code: str, expected: list[tuple[str, int, str]] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"a": 0, "a.b": 0, "a.c": 0, "errors": 0, "view": 0}
    monkeypatch.setitem(globals(), "sources", lambda: known)
    if expected is None:
        expected = [("a.b", 1, ""), ("a.b", 2, ""), ("errors", 3, ""), ("view", 4, "")]
    assert imports("a.c", False, ast.parse(code)) == expected


def test_files_stay_small() -> None:
    folders = [folder for name in ("src", "tests", "bench") if (folder := ROOT / name).is_dir()]
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in folders
        for path in folder.rglob("*.py")
        if (lines := len(path.read_bytes().splitlines())) > (MAX_LINES if folder.name == "src" else 2 * MAX_LINES)
    }
    assert not long


def test_public_names_are_told() -> None:
    names = list(packlight.__all__)
    assert names == sorted(names, key=lambda name: (not name.isupper(), name))
    assert len(names) == len(set(names))
    missing = [name for name in names if not hasattr(packlight, name)]
    assert not missing, "in __all__, but not there"
    leaked = {
        name
        for name in dir(packlight)
        if not name.startswith("_")
        and not isinstance(value := getattr(packlight, name), ModuleType)
        and getattr(value, "__module__", "packlight").startswith("packlight")
    } - {*names, "annotations", "TYPE_CHECKING"}
    assert not leaked, "there, but not in __all__"


def test_public_names_have_docstring() -> None:
    attribute_docs = documented_assignments()
    bare = []
    for name in packlight.__all__:
        value = getattr(packlight, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            doc = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
            if not doc or doc.startswith(f"{name}("):  # dataclass writes its signature there
                bare.append(name)
        elif name not in attribute_docs and not name.startswith("__"):
            bare.append(name)
    assert not bare


def documented_assignments() -> set[str]:
    """Names assigned at the top level of a module with a string right below."""
    found = set()
    for _, tree in sources().values():
        for node, below in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                heads = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                found |= {head.id for head in heads if isinstance(head, ast.Name)}
    return found


def test_core_depends_on_msgspec_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert [re.split(r"[^\w-]", line)[0] for line in project["project"]["dependencies"]] == ["msgspec"]
    assert "litellm" not in (ROOT / "pyproject.toml").read_text("utf-8")
    assert sum(path.stat().st_size for path in SOURCE.rglob("*") if path.suffix != ".pyc") < 8_000_000


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_locks_name_no_index(lock: str) -> None:
    text = (ROOT / lock).read_text("utf-8")
    assert not re.search(r"://|--(extra-)?index|--find-links|litellm", text)
    pins = re.findall(r"^[a-z0-9].*==.*$", text, re.MULTILINE)
    assert pins and all(pin.endswith("\\") for pin in pins), "every version is locked by hash"
    assert "--hash=sha256:" in text


HEAVY = {"anthropic", "argparse", "asyncio", "http", "openai", "sqlite3", "ssl", "urllib.request"}


def run_python(script: str) -> str:
    """Its output in a fresh interpreter."""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def modules_after(code: str) -> set[str]:
    """What a fresh interpreter has loaded after this code, beside what it loads to start."""
    script = f"import sys; before = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    return set(run_python(script).split())


def test_import_is_light() -> None:
    assert not modules_after("import packlight") & HEAVY


def test_no_public_name_loads_an_sdk() -> None:
    loaded = modules_after("import packlight\nfor name in packlight.__all__: getattr(packlight, name)")
    assert not loaded & {"anthropic", "argparse", "openai", "packlight.cli", "ssl"}


def test_import_is_fast() -> None:
    """80 ms of CPU; the best of several, since the machine may be busy."""
    script = "import time; start = time.process_time(); import packlight; print(time.process_time() - start)"
    seconds = []
    for _ in range(10):
        seconds.append(float(run_python(script)))
        if seconds[-1] < 0.08:
            break
    assert min(seconds) < 0.08
