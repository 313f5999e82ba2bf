"""The pipeline is the folder tree, and these tests keep its direction."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import spu_core
from tests import structure

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ROOT / "spu_core"

# Each may import those before it, never those after it.
PIPELINE = [
    "errors",
    "checks",
    "codec",
    "versions",
    "html_table",
    "metrics",
    "theory",
    "tables",
    "rules",
    "labels",
    "models",
    "training",
    "trust",
    "charts",
    "export",
    "workspace",
    "engines",
    "experiments",
    "bench",
    "commands",
    "cli",
]
HEAVY = ["streamlit", "lightgbm", "xgboost", "optuna", "torch", "onnx", "dask", "distributed", "mlflow", "openpyxl"]


def modules_of(package: str) -> list[Path]:
    folder = ENGINE / package
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [ENGINE / f"{package}.py"]


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imported_by(path: Path) -> frozenset[str]:
    """Full names of everything a file imports, wherever in the file."""
    names: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def test_every_package_of_the_engine_has_its_place_in_the_pipeline():
    found = {path.stem if path.is_file() else path.name for path in ENGINE.iterdir()}
    found -= {"__init__", "__main__", "__pycache__", "py", "_dashboard"}

    assert found <= set(PIPELINE)


@pytest.mark.parametrize("package", PIPELINE)
def test_a_package_imports_only_those_before_it(package):
    later = set(PIPELINE[PIPELINE.index(package) + 1 :])
    for path in modules_of(package):
        if not path.exists():
            continue
        reached = {name.split(".")[1] for name in imported_by(path) if name.startswith("spu_core.")}
        assert not reached & later, f"{path.relative_to(ROOT)} reaches forward to {sorted(reached & later)}"


def test_the_engine_knows_nothing_of_the_dashboard():
    for path in ENGINE.rglob("*.py"):
        roots = {name.split(".")[0] for name in imported_by(path)}
        assert not roots & {"streamlit", "pages", "app"}, path


def test_pages_hold_no_arithmetic_on_arrays():
    for path in [ROOT / "app.py", *(ROOT / "pages").rglob("*.py")]:
        assert not {"numpy", "sklearn", "lightgbm"} & {name.split(".")[0] for name in imported_by(path)}, path


@pytest.fixture(scope="module")
def modules():
    return structure.modules()


def test_no_modules_import_each_other_in_a_circle(modules):
    known = set(modules)

    assert structure.cycles({name: module.imports(known) for name, module in modules.items()}) == []


def test_our_own_modules_are_imported_at_the_top_of_a_file(modules):
    """An import inside a function hides a cycle. Heavy libraries may be imported where they are used."""
    found = {name: lines for name, module in modules.items() if (lines := module.local_imports())}

    assert found == {}


def test_a_class_name_is_defined_once(modules):
    assert structure.twice([name for module in modules.values() for name in module.classes]) == []


def test_public_names_describe_their_parameters():
    assert structure.without_parameters() == []


def test_importing_the_engine_loads_neither_streamlit_nor_anything_heavy():
    code = f"import sys, spu_core; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert result.stdout.strip() == "[]"


def test_only_public_names_are_shown():
    assert dir(spu_core) == sorted(spu_core.__all__)
    assert 50 <= len(spu_core.__all__) <= 80
    with pytest.raises(AttributeError, match="auc"):
        _ = spu_core.auc


def packages() -> list[str]:
    found = [module.name for module in pkgutil.iter_modules(spu_core.__path__, "spu_core.") if module.ispkg]
    return ["spu_core", *(name for name in found if "._" not in name)]


@pytest.mark.parametrize("name", packages())
def test_public_names_are_sorted_importable_and_documented(name):
    module = importlib.import_module(name)
    public = list(module.__all__)

    if not hasattr(module, "__getattr__"):  # constants first, then classes, then functions: the order that ruff keeps
        assert public == sorted(public, key=lambda each: (not each.isupper(), each[0].islower(), each))
    assert len(set(public)) == len(public)
    assert module.__doc__
    for each in public:
        value = getattr(module, each)
        if callable(value) and hasattr(value, "__module__"):
            assert value.__doc__, f"{name}.{each} has no docstring"


def test_user_text_is_never_run_as_code():
    """No eval, exec, compile or DataFrame.query anywhere: rules are data, walked by our own code."""
    for path in [*ENGINE.rglob("*.py"), *(ROOT / "pages").rglob("*.py"), ROOT / "app.py"]:
        for node in nodes_of(path):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                is_bare = isinstance(node.func, ast.Name)
                assert not (is_bare and name in {"eval", "exec", "__import__"}), where
                made_by = getattr(getattr(node.func, "value", None), "func", None)
                is_search = getattr(made_by, "id", None) == "cKDTree"  # neighbours of points, not a query in text
                assert is_bare or is_search or not node.args or name not in {"query", "eval"}, where
                assert not any(word.arg == "unsafe_allow_html" for word in node.keywords), where


def test_no_model_or_table_is_ever_unpickled():
    for path in ENGINE.rglob("*.py"):
        assert not {"pickle", "joblib", "dill", "cloudpickle"} & {n.split(".")[0] for n in imported_by(path)}, path
        assert "allow_pickle=True" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize(
    "stub", sorted(Path(spu_core.__path__[0]).rglob("__init__.pyi")), ids=lambda path: path.parent.name
)
def test_no_module_has_the_name_of_something_its_package_offers(stub):
    """Older lazy_loader hands out the module instead of the function of the same name."""
    offered = {
        name.asname or name.name for node in ast.parse(stub.read_text()).body for name in getattr(node, "names", ())
    }
    assert not offered & {path.stem for path in stub.parent.glob("*.py")}
