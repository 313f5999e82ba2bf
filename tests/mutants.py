"""Do the tests notice when the code is wrong? Breaks a package in small, random ways and counts what the tests notice.

    python -m tests.mutants metrics --count 200 --seed 0

A mutant is the package with one small mistake: `<` for `<=`, `min` for `max`, a statement left out. Each mutant is
tried with the package's tests and doctests that run the changed lines, the quickest first. It is killed when one fails.
A survivor shows a missing test, or it changes nothing that a user can see. A person decides which, and lists the latter
in `tests/equivalent_mutants.txt`. Needs `pip install coverage`; not part of CI.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Packages whose tests start servers, browsers and clusters are left out.
PACKAGES = ["metrics", "theory", "tables", "rules", "labels", "models", "training", "trust", "charts", "export"]
# Imported once, before the first child is made.
LIBRARIES = """anyio.pytest_plugin coverage hypothesis.extra.numpy hypothesis.extra.pandas lightgbm onnx onnxruntime
    openpyxl optuna pandas plotly.graph_objects psutil pyarrow.csv pyarrow.dataset pyarrow.parquet pytest scipy.optimize
    scipy.stats sklearn.calibration sklearn.ensemble sklearn.linear_model sklearn.metrics sklearn.model_selection
    sklearn.pipeline streamlit.testing.v1 typer xgboost"""
# Processor seconds: for the package's own tests of a mutant, for the further tests, for one quick test of another.
OWN_SECONDS, FURTHER_SECONDS, QUICK_SECONDS = 60.0, 15.0, 0.5
LONGEST_WAIT = 300.0  # seconds by the clock in which a child may do nothing but wait
BROKEN = 99  # exit code of a child that could not do its work

OPERATORS = {
    ast.Lt: ("<", ["<=", ">"]), ast.LtE: ("<=", ["<", ">="]), ast.Gt: (">", [">=", "<"]), ast.GtE: (">=", [">", "<="]),
    ast.Eq: ("==", ["!="]), ast.NotEq: ("!=", ["=="]), ast.Is: ("is", ["is not"]), ast.IsNot: ("is not", ["is"]),
    ast.In: ("in", ["not in"]), ast.NotIn: ("not in", ["in"]), ast.And: ("and", ["or"]), ast.Or: ("or", ["and"]),
    ast.Add: ("+", ["-"]), ast.Sub: ("-", ["+"]), ast.Mult: ("*", ["/", "+"]), ast.Div: ("/", ["*"]),
    ast.FloorDiv: ("//", ["/"]), ast.Mod: ("%", ["*"]), ast.Pow: ("**", ["*"]), ast.MatMult: ("@", ["*"]),
    ast.BitAnd: ("&", ["|"]), ast.BitOr: ("|", ["&"]), ast.BitXor: ("^", ["&"]),
    ast.LShift: ("<<", [">>"]), ast.RShift: (">>", ["<<"]),
    ast.Not: ("not", [""]), ast.Invert: ("~", [""]), ast.USub: ("-", [""]), ast.UAdd: ("+", ["-"]),
}  # fmt: skip
PAIRS = "min-max minimum-maximum floor-ceil any-all argmin-argmax head-tail left-right first-last"
SWAPS = {old: new for pair in PAIRS.split() for old, new in (pair.split("-"), pair.split("-")[::-1])}


@dataclass(frozen=True)
class Mutant:
    """One edit of one file: the changed lines before and after, and the lines whose tests may notice."""

    file: str
    line: int
    old: str
    new: str
    source: bytes
    lines: range


class Source:
    """A source file with its syntax tree; `edits()` are all the small changes that can be made to it."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def edits(self) -> Iterator[tuple[int, int, list[str], range]]:
        """For each place the bytes to replace (start, end), the possible replacements, and the lines that run it."""
        return self._walk(ast.parse(self.source), range(len(self.starts)), in_function=False)

    def _walk(self, node: ast.AST, lines: range, in_function: bool) -> Iterator[tuple[int, int, list[str], range]]:
        match node:
            case ast.FunctionDef() | ast.ClassDef():  # what runs on import counts as run by all tests of its scope
                lines, in_function = range(node.lineno, _last_line(node) + 1), isinstance(node, ast.FunctionDef)
            case ast.stmt() if in_function:
                body = getattr(node, "body", None)
                last = max(body[0].lineno - 1, node.lineno) if body else _last_line(node)
                lines = range(node.lineno, last + 1)
        for start, end, replacements in self._edits_of(node):
            yield start, end, replacements, lines
        for child in _children(node):
            yield from self._walk(child, lines, in_function)

    def _edits_of(self, node: ast.AST) -> Iterator[tuple[int, int, list[str]]]:
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                for number, operator in enumerate(node.ops):
                    yield from self._operator(operator, self._end(sides[number]), self._start(sides[number + 1]))
            case ast.BoolOp():
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield from self._operator(node.op, self._end(left), self._start(right))
            case ast.BinOp() if not (_is_text(node.left) or _is_text(node.right)):
                yield from self._operator(node.op, self._end(node.left), self._start(node.right))
            case ast.UnaryOp():
                yield from self._operator(node.op, self._start(node), self._start(node.operand))
            case ast.Constant(value=bool()):
                yield self._replace(node, str(not node.value))
            case ast.Constant(value=float()) if node.value > 1e-6:
                yield self._replace(node, repr(node.value + 1), repr(node.value / 2))
            case ast.Constant(value=int() | float()):
                yield self._replace(node, repr(node.value + 1))
            case ast.Constant(value=str()) if node.value in SWAPS:
                yield self._replace(node, repr(SWAPS[node.value]))
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.If() | ast.While() | ast.IfExp() if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
                yield self._replace(node.test, f"(not {self._text(node.test)})")
            case ast.comprehension():
                for condition in node.ifs:
                    yield self._replace(condition, "True")
            case ast.Return(value=ast.Compare() | ast.BoolOp()):
                yield self._replace(node.value, f"not ({self._text(node.value)})")
            case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant | ast.JoinedStr):
                yield self._replace(node.value, "None")
            case ast.Slice():
                for edge in filter(None, (node.lower, node.upper)):
                    yield self._replace(edge, "")
            case ast.AugAssign():
                yield self._replace(node, "pass")
                yield from self._operator(node.op, self._end(node.target), self._start(node.value))
            case ast.Assign() if _changes_what_exists(node):
                yield self._replace(node, "pass")
            case ast.Raise() | ast.Continue() | ast.Break() | ast.Expr(value=ast.Call()):
                yield self._replace(node, "pass")
            case ast.Call():
                name = self._text(node.func).split(".")[-1]
                if name in SWAPS:
                    yield self._end(node.func) - len(name), self._end(node.func), [SWAPS[name]]
                for keyword in _mutable_keywords(node):
                    comma = re.compile(rb"\s*,\s*|").match(self.source, self._end(keyword))
                    yield self._start(keyword), comma.end() if comma else self._end(keyword), [""]

    def _operator(self, operator: ast.AST, start: int, end: int) -> Iterator[tuple[int, int, list[str]]]:
        sign, replacements = OPERATORS[type(operator)]
        at = self.source.find(sign.encode(), start, end)
        if at >= 0:
            yield at, at + len(sign), replacements

    def _replace(self, node: Any, *replacements: str) -> tuple[int, int, list[str]]:
        return self._start(node), self._end(node), list(replacements)

    def _start(self, node: Any) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _end(self, node: Any) -> int:
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: Any) -> str:
        return self.source[self._start(node) : self._end(node)].decode()


def _children(node: ast.AST) -> list[ast.AST]:
    """What is looked at inside a node: no annotations, decorators, messages, or names of types."""
    match node:
        case ast.FunctionDef(name="__repr__" | "__str__" | "_repr_html_"):
            return []
        case ast.FunctionDef():
            return [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        case ast.ClassDef():
            return [*node.body]
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")) | ast.AnnAssign(value=None):
            return []
        case ast.AnnAssign():
            return [node.value] if node.value else []
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return []
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return []
        case ast.Call(func=ast.Name(id="isinstance")):
            return [node.args[0]]
        case ast.Call():
            return [node.func, *node.args, *(keyword.value for keyword in _mutable_keywords(node))]
    return list(ast.iter_child_nodes(node))


def _mutable_keywords(node: ast.Call) -> list[ast.keyword]:
    return [keyword for keyword in node.keywords if keyword.arg not in (None, "repr", "stacklevel", "strict")]


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _changes_what_exists(node: ast.Assign) -> bool:
    """Is it an attribute, an entry, or a name that is computed from its earlier value?"""
    target = node.targets[0]
    names = {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
    return isinstance(target, ast.Attribute | ast.Subscript) or (isinstance(target, ast.Name) and target.id in names)


def draw_mutants(package: str, count: int, seed: int, exclude: list[str]) -> list[Mutant]:
    """`count` mutants of a package; every place that can be changed is equally likely."""
    edits = _edits(package, exclude)
    chance = random.Random(f"{package} {seed}")
    chance.shuffle(edits)
    mutants: list[Mutant] = []
    for path, start, end, replacements, lines in edits:
        mutant = _mutant(path, start, end, chance.choice(replacements), lines)
        if len(mutants) < count and _meaning(mutant.source) not in ("", _meaning(path.read_bytes())):
            mutants.append(mutant)
    return mutants


def survivors_of(log: str, package: str) -> list[Mutant]:
    """The mutants that a log lists, each once: found by their text, so that code may have moved since."""
    wanted = set(re.findall(r"^- (.*)\n\+ (.*)$", log, re.MULTILINE))
    found: dict[tuple[str, str], Mutant] = {}
    for path, start, end, replacements, lines in _edits(package, []):
        for replacement in replacements:
            mutant = _mutant(path, start, end, replacement, lines)
            if (mutant.old, mutant.new) in wanted:
                found.setdefault((mutant.old, mutant.new), mutant)
    for old, new in wanted - set(found):
        print(f"no longer there:\n- {old}\n+ {new}")
    return list(found.values())


def _edits(package: str, exclude: list[str]) -> list[tuple[Path, int, int, list[str], range]]:
    files = sorted((ROOT / "spu_core" / package).rglob("*.py"))
    return [(path, *edit) for path in files if path.name not in exclude for edit in Source(path.read_bytes()).edits()]


def _mutant(path: Path, start: int, end: int, replacement: str, lines: range) -> Mutant:
    source = path.read_bytes()
    mutated = source[:start] + replacement.encode() + source[end:]
    first, after = source.rfind(b"\n", 0, start) + 1, source.index(b"\n", end)
    old, new = source[first:after], mutated[first : after + len(mutated) - len(source)]
    line = source.count(b"\n", 0, start) + 1
    return Mutant(str(path.relative_to(ROOT)), line, _flat(old), _flat(new), mutated, lines)


def _meaning(source: bytes) -> str:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return ""
    return ast.dump(ast.parse(source))


def _flat(text: bytes) -> str:
    return " ".join(text.decode().split())


class Conductor:
    """A pytest plugin: runs the wanted tests in the wanted order, each with a limit of processor time.

    Without wanted tests it runs all, and takes down which test runs which lines and for how long.
    """

    def __init__(self, wanted: dict[str, float] | None = None, coverage: Any = None) -> None:
        self.wanted, self.coverage = wanted, coverage
        self.seconds: dict[str, float] = {}
        self.not_passed: set[str] = set()
        self.began = 0.0

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.wanted is not None:
            found = {item.nodeid: item for item in items}
            items[:] = [found[name] for name in self.wanted if name in found]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.began = sum(os.times()[:4])
        if self.wanted is None:
            self.coverage.switch_context(nodeid)
        else:
            signal.setitimer(signal.ITIMER_PROF, 20.0 + 10.0 * self.wanted[nodeid])  # its signal ends the process

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not report.passed:
            self.not_passed.add(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = sum(os.times()[:4]) - self.began


def run_pytest(arguments: list[str], conductor: Conductor) -> int:
    import pytest
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants",
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    # Without strict markers: those of xdist are unknown here.
    addopts = "addopts=--doctest-modules --import-mode=importlib -p no:cacheprovider -p no:xdist"
    options = ["-q", "--tb=native", "--hypothesis-profile=mutants", "-m", "not browser and not slow", "-o", addopts]
    return int(pytest.main([*options, *arguments], plugins=[conductor]))


def measure(folder: str, place: Path, target: Path) -> int:
    """In a child: runs the tests of a folder once, and writes which of them run which lines of spu_core."""
    from coverage import Coverage

    coverage = Coverage(data_file=None, source=[str(place / "spu_core")], config_file=False)
    conductor = Conductor(coverage=coverage)
    coverage.start()
    ending = run_pytest([folder], conductor)
    coverage.stop()
    if ending not in (0, 1, 5):  # the tests could not be read; without any test it is 5
        return BROKEN
    data = coverage.get_data()
    lines: dict[str, dict[str, list[int]]] = {}
    for file in data.measured_files():
        of_file = lines[str(Path(file).relative_to(place))] = {}
        for line, tests in data.contexts_by_lineno(file).items():
            for test in set(tests) - conductor.not_passed - {""}:
                of_file.setdefault(test, []).append(line)
    target.write_text(json.dumps({"seconds": conductor.seconds, "lines": lines, "not": sorted(conductor.not_passed)}))
    return 0


class TestMap:
    """Which tests run which lines, and for how long."""

    def __init__(self, files: list[Path]) -> None:
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, dict[str, list[int]]] = {}
        for file in files:
            part = json.loads(file.read_text())
            self.seconds |= part["seconds"]
            for name, of_file in part["lines"].items():
                self.lines[name] = self.lines.get(name, {}) | of_file

    def batches(self, mutant: Mutant, package: str) -> list[dict[str, float]]:
        """The package's own tests of the changed lines, and further tests.

        These are quick tests of the changed lines elsewhere, and the package's other tests of the file: what a fixture
        runs is counted only for the first test that uses it.
        """
        of_file = self.lines.get(mutant.file, {})
        of_lines = {test for test, lines in of_file.items() if any(line in mutant.lines for line in lines)}
        homes = (f"tests/{package}/", f"spu_core/{package}/")
        own = {test for test in of_lines if test.startswith(homes)}
        if not of_file:  # it runs in other processes, which are not measured: any test of the package may notice
            own = {test for test in self.seconds if test.startswith(homes)}
        further = {test for test in of_lines - own if self.seconds[test] <= QUICK_SECONDS}
        further |= {test for test in of_file if test.startswith(homes)} - own
        return [self._quickest(own, OWN_SECONDS), self._quickest(further, FURTHER_SECONDS)]

    def _quickest(self, tests: set[str], limit: float) -> dict[str, float]:
        chosen: dict[str, float] = {}
        for test in sorted(tests, key=lambda test: (self.seconds[test], test)):
            if sum(chosen.values()) <= limit:
                chosen[test] = self.seconds[test]
        return chosen


def try_mutant(mutant: Mutant, batches: list[dict[str, float]], place: Path) -> int:
    """In a child: 0 if no test notices, 1 if a test of the first batch notices, 2 if one of the second does."""
    file = place / mutant.file
    file.write_bytes(mutant.source)
    os.utime(file, (os.getpid(), os.getpid()))  # a time of its own, so that no compiled file is taken for this one
    for number, batch in enumerate(batches, 1):
        signal.setitimer(signal.ITIMER_PROF, 60.0)  # for reading the test files
        if batch and run_pytest(["-x", *{test.partition("::")[0]: None for test in batch}], Conductor(batch)) != 0:
            return number
    return 0


def fork(task: Callable[[Path], int | None], place: Path) -> int:
    """Starts a child that imports spu_core and the tests from `place`; returns its process id."""
    child = os.fork()
    if child:
        return child
    code = BROKEN
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
        log = os.open(place.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(place)
        os.environ["PYTHONPATH"] = str(place)
        sys.path[:] = [str(place), *(entry for entry in sys.path if Path(entry).resolve() != ROOT)]
        for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "spu_core")]:
            del sys.modules[name]
        sys.dont_write_bytecode = False  # the next child need not compile what this one has
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        result = task(place) or 0
        loaded = sys.modules.get("spu_core")
        if loaded is None or str(loaded.__file__).startswith(str(place)):
            code = result
    finally:
        os._exit(code)


def run_children(tasks: list[Callable[[Path], int | None]], places: list[Path]) -> Iterator[tuple[int, Path, int]]:
    """Runs tasks in children, one in each place at a time; yields the task's number, its place and its exit code."""
    waiting, free = list(enumerate(tasks)), list(places)
    running: dict[int, tuple[int, Path, float]] = {}
    try:
        while waiting or running:
            while waiting and free:
                (number, task), place = waiting.pop(0), free.pop(0)
                running[fork(task, place)] = number, place, time.monotonic() + LONGEST_WAIT
            time.sleep(0.1)
            for child, (number, place, end) in list(running.items()):
                if not is_idle(child):
                    running[child] = number, place, time.monotonic() + LONGEST_WAIT
                elif time.monotonic() > end:
                    kill_with_its_children(child)
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    kill_with_its_children(child)  # processes that the tests have left behind
                    del running[child]
                    free.append(place)
                    yield number, place, os.waitstatus_to_exitcode(status)
    finally:
        for child in running:
            kill_with_its_children(child)


def is_idle(child: int) -> bool:
    """Whether it and its children wait for something; on a busy machine, waiting for a processor is not idle."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(child)
        family = [process, *process.children(recursive=True)]
        return all(each.status() != psutil.STATUS_RUNNING for each in family)
    return False


def kill_with_its_children(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def make_places(cache: Path, jobs: int) -> list[Path]:
    """A copy of the project for each worker."""
    places = [cache / f"copy{number}" for number in range(jobs)]
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", "build"))
    return places


def map_tests(packages: list[str], cache: Path, places: list[Path]) -> TestMap:
    """Measures the tests of these packages and the doctests of the first; what is as before is not measured again."""
    folders = [f"spu_core/{packages[0]}", *(f"tests/{name}" for name in packages)]
    engine = b"".join(path.read_bytes() for path in sorted((ROOT / "spu_core").rglob("*.py")))
    files = {}
    for folder in folders:
        state = hashlib.sha256(engine + b"".join(path.read_bytes() for path in sorted((ROOT / folder).rglob("*.py"))))
        files[folder] = cache / f"{folder.replace('/', '-')}-{state.hexdigest()[:16]}.json"
    missing = [folder for folder in folders if not files[folder].exists()]
    tasks = [lambda place, folder=folder: measure(folder, place, files[folder]) for folder in missing]
    for number, place, code in run_children(tasks, places):
        if code != 0:
            sys.exit(f"could not measure {missing[number]}, see {place.with_suffix('.log')}")
        print(f"measured {missing[number]}", flush=True)
    return TestMap(list(files.values()))


def report(package: str, outcomes: dict[str, list[Mutant]], seconds: float) -> None:
    """Prints the survivors that are not known to be equivalent, and the counts."""
    text = (ROOT / "tests" / "equivalent_mutants.txt").read_text(encoding="utf-8")
    equivalent = set(re.findall(rf"^{package}\n- (.*)\n\+ (.*)\n= \S", text, re.MULTILINE))
    survivors = sorted(outcomes["survived"], key=lambda mutant: (mutant.file, mutant.line))
    missed = [mutant for mutant in survivors if (mutant.old, mutant.new) not in equivalent]
    print("\nSurvivors that are not listed as equivalent:")
    for mutant in missed:
        print(f"\n{mutant.file}:{mutant.line}\n- {mutant.old}\n+ {mutant.new}")
    drawn = sum(map(len, outcomes.values()))
    killed, same = drawn - len(survivors), len(survivors) - len(missed)
    print(f"\n{package}: {', '.join(f'{len(found)} {name}' for name, found in outcomes.items())}; {seconds:.0f} s")
    print(f"killed, of all mutants: {wilson(killed, drawn)}")
    print(f"killed, without {same} equivalent mutants: {wilson(killed, drawn - same)}")


def wilson(hits: int, of: int) -> str:
    """A share with its 95 % interval after Wilson."""
    z, share = 1.96, hits / of
    middle = (share + z**2 / (2 * of)) / (1 + z**2 / of)
    half = z / (1 + z**2 / of) * (share * (1 - share) / of + z**2 / (4 * of**2)) ** 0.5
    return f"{hits}/{of} = {share:.1%} (95 % interval {middle - half:.1%} to {middle + half:.1%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", choices=PACKAGES)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="leave out so many of them: those of an earlier run")
    parser.add_argument("--again", type=Path, metavar="LOG", help="only the survivors of an earlier run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--exclude", nargs="*", default=[], metavar="FILE.py", help="files that get no mutants")
    parser.add_argument(
        "--also", nargs="*", default=[], choices=PACKAGES, help="packages whose quick tests run as well"
    )
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "spu-mutants")
    chosen = parser.parse_args()

    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: its threads would not survive a fork
    for name in LIBRARIES.split():
        importlib.import_module(name)
    places = make_places(chosen.cache, chosen.jobs)
    tests = map_tests([chosen.package, *chosen.also], chosen.cache, places)

    mutants = draw_mutants(chosen.package, chosen.count, chosen.seed, chosen.exclude)[chosen.first :]
    if chosen.again:
        mutants = survivors_of(chosen.again.read_text(encoding="utf-8"), chosen.package)
    batches = [tests.batches(mutant, chosen.package) for mutant in mutants]
    tasks = [
        lambda place, mutant=mutant, batch=batch: try_mutant(mutant, batch, place)
        for mutant, batch in zip(mutants, batches, strict=True)
    ]
    words = {
        0: "survived",
        1: "killed",
        2: "killed by further tests",
        -signal.SIGPROF: "timed out",
        -signal.SIGKILL: "timed out",
    }
    outcomes: dict[str, list[Mutant]] = {word: [] for word in words.values()}
    began = time.monotonic()
    for number, place, code in run_children(tasks, places):
        mutant = mutants[number]
        shutil.copy2(ROOT / mutant.file, place / mutant.file)
        if code == BROKEN:
            sys.exit(f"{mutant.file}:{mutant.line}: the run itself failed, see {place.with_suffix('.log')}")
        outcome = words.get(code, "killed")  # any other signal is a crash
        outcomes[outcome].append(mutant)
        print(f"{sum(map(len, outcomes.values()))}/{len(mutants)} {outcome} {mutant.file}:{mutant.line}", flush=True)
        if outcome == "survived":
            print(f"- {mutant.old}\n+ {mutant.new}", flush=True)
    report(chosen.package, outcomes, time.monotonic() - began)


if __name__ == "__main__":
    main()
