"""The plugin that TensorBoard loads by its entry point: routes, and what each answers.

Every answer is JSON; what a user can cause, from a truncated trace to a path that leads out of the log folder, is
answered with `{"error": sentence}`, which the page shows.
"""

from __future__ import annotations

import math
import mimetypes
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from tensorboard.backend.http_util import Respond
from tensorboard.plugins.base_plugin import FrontendMetadata, TBContext, TBPlugin
from werkzeug.wrappers import Request, Response

from profiler.errors import UserError
from profiler.results.store import read_as_much
from profiler.results.types import FILE, CellResult, Results
from profiler.tensorboard_plugin import side_by_side
from profiler.tensorboard_plugin.folder import LogFolder, NotFound
from profiler.tensorboard_plugin.kept import Kept, stamp
from profiler.tensorboard_plugin.overview import all_tables, head, overview
from profiler.tensorboard_plugin.tables import BYS, cell_table, table_of_trace
from profiler.tensorboard_plugin.trace import cut, gpu, memory, search
from profiler.tensorboard_plugin.trace.columns import Columns
from profiler.tensorboard_plugin.trace.store import TraceStore

STATIC = Path(__file__).resolve().parent / "static"
RUNS_KEPT = 20
HEADS_KEPT = 500  # runs whose date, model and status stand in the list: of older ones the name
NO_FOLDER = "TensorBoard was started without --logdir; start it with the folder that holds the runs."

KERNELS = (
    "Times are those of the device. Occupancy: estimated by the profiler, mean over calls weighted with their time. "
    "Tensor cores: by the kernel's name. Operator: what launched the longest call. Names are shortened; the whole name "
    "is shown on hover."
)
OTHER_FORM = "The files of this run are not in the form that was expected ({}); another version may have written them."


class Arguments(dict[str, str]):
    """What stands in the address. What is missing there is the address's fault, not that of a file."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.args.to_dict())
        self._connection: socket.socket | None = request.environ.get("werkzeug.socket")

    def wanted(self) -> bool:
        """Whether who asked still waits; where that cannot be told, yes."""
        try:
            return self._connection is None or bool(self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def __missing__(self, key: str) -> str:
        raise UserError(f"The address is not whole: `{key}` is missing.")

    def number(self, key: str) -> float:
        try:
            value = float(self[key])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise UserError(f"The address is wrong: `{key}` is not a number.")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        return default if default is not None and key not in self else int(self.number(key))


Answer = Callable[[Arguments], Any]


class SpeechProfilePlugin(TBPlugin):
    """The tab "Speech profile"."""

    plugin_name = "speech_profile"

    def __init__(self, context: TBContext, traces: TraceStore | None = None) -> None:
        super().__init__(context)
        self._folder = LogFolder(context.logdir) if context.logdir else None
        self._results: Kept[tuple[Results, str | None]] = Kept(read_as_much, RUNS_KEPT)
        self._heads: Kept[dict[str, Any]] = Kept(head, HEADS_KEPT)
        self._traces = traces or TraceStore()

    def is_active(self) -> bool:
        return self._folder is not None and self._folder.has_runs()

    def frontend_metadata(self) -> FrontendMetadata:
        return FrontendMetadata(es_module_path="/index.js", tab_name="Speech profile", disable_reload=True)

    def get_plugin_apps(self) -> dict[str, Any]:
        answers: dict[str, Answer] = {
            "/runs": self._runs,
            "/run": self._run,
            "/all_tables": lambda given: all_tables(self._read(given["run"])),
            "/variants": self._variants,
            "/table": self._table,
            "/side_by_side": self._side_by_side,
            "/side_by_side_table": self._side_by_side_table,
            "/trace": lambda given: cut.outline(self._trace(given)) | {"stamp": self._stamp(given)},
            "/trace/cut": self._cut,
            "/trace/find": self._find,
            "/trace/at": lambda given: search.at(self._trace(given), given.whole("row"), given.number("time")),
            "/trace/window": lambda given: search.in_window(self._trace(given), *_window(given)),
            "/gpu": lambda given: {"overview": gpu.overview(self._trace(given))},
            "/kernels": self._kernels,
            "/memory": lambda given: memory.memory_over_time(
                self._trace(given), *_window(given), given.whole("width", 1000)
            ),
        }
        files = {f"/{path.name}": _file(path) for path in STATIC.iterdir()} if STATIC.is_dir() else {}
        return {route: _json(answer) for route, answer in answers.items()} | {"/download": self._download()} | files

    def _logs(self) -> LogFolder:
        if self._folder is None:
            raise NotFound(NO_FOLDER)
        return self._folder

    def _runs(self, given: Arguments) -> Any:
        folder = self._logs()
        runs: list[dict[str, Any]] = [{"name": one.name, "kind": one.kind, "began": one.began} for one in folder.runs()]
        for run in [run for run in runs if run["kind"] == "run"][:HEADS_KEPT]:
            run |= self._head(run["name"])
        return {"folder": str(folder.root), "runs": sorted(runs, key=lambda run: (-run["began"], run["name"]))}

    def _head(self, name: str) -> dict[str, Any]:
        try:
            return self._heads.get(self._logs().file(self._logs().run(name), FILE))
        except (NotFound, OSError):  # gone since it was listed
            return {}

    def _variants(self, given: Arguments) -> Any:
        results = self._read(given["run"])
        baseline = given.get("baseline") or results.variants[0]
        if baseline not in results.variants:
            raise NotFound(f"The run has no variant {baseline!r}.")
        return {"baseline": baseline, "variants": side_by_side.compare_variants(results, baseline)}

    def _run(self, given: Arguments) -> Any:
        name = given["run"]
        folder = self._logs().run(name)
        if not (folder / "results.json").exists():
            traces = self._logs().traces(folder)
            if not traces:
                raise NotFound(f"{name!r} is neither a run nor a folder of traces.")
            return {"name": name, "kind": "traces", "traces": traces}
        results, problem = self._read_as_much(name)
        now = "-".join(map(str, stamp(self._logs().file(folder, "results.json"))))
        if given.get("known") == now:
            return {"name": name, "unchanged": True}
        view = overview(results)
        for variant in view["variants"]:
            for cell in variant["cells"]:
                found = self._logs().traces(folder, variant["name"], cell["label"])
                cell["traces"] = [f"{variant['name']}/{cell['label']}/{file}" for file in found]
        return view | {"name": name, "kind": "run", "stamp": now, "problem": problem}

    def _read(self, name: str) -> Results:
        return self._read_as_much(name)[0]

    def _read_as_much(self, name: str) -> tuple[Results, str | None]:
        """What is whole of a run, and what is wrong with it; paths are shown as they are below the log folder."""
        folder, above = self._logs().run(name), f"{self._logs().root}/"
        try:
            results, problem = self._results.get(self._logs().file(folder, "results.json"))
        except NotFound:
            raise
        except UserError as error:
            raise UserError(str(error).replace(above, "")) from None
        return results, problem and problem.replace(above, "")

    def _cell(self, given: Arguments, side: str = "") -> tuple[Results, CellResult]:
        results = self._read(given[f"{side}run"])
        variant, label = given[f"{side}variant"], given[f"{side}cell"]
        for cell in results.cells:
            if (cell.variant, cell.label) == (variant, label):
                return results, cell
        raise NotFound(f"The run has no cell {label!r} of {variant!r} (any more).")

    def _table(self, given: Arguments, side: str = "") -> dict[str, Any]:
        by = given["by"]
        if by not in BYS:
            raise UserError(f"There is no table by {by!r}.")
        if f"{side}cell" not in given:
            return table_of_trace(self._trace(given), by)
        _, cell = self._cell(given, side)
        folder = self._logs().run(given[f"{side}run"])
        found = self._logs().traces(folder, cell.variant, cell.label) if cell.breakdown is None else []
        file = self._logs().file(folder, cell.variant, cell.label, found[0]) if found else None
        trace = self._traces.get(file, given.wanted) if file else None
        return cell_table(self._logs(), folder, cell, by, trace)

    def _side_by_side(self, given: Arguments) -> Any:
        left, right = (self._read(given[f"{side}run"]) for side in ("left_", "right_"))
        variants = given["left_variant"], given["right_variant"]
        cells = [
            [cell for cell in results.cells if cell.variant == variant]
            for results, variant in zip((left, right), variants, strict=True)
        ]
        judged = side_by_side.judge_runs(left, right, variants)
        answer: dict[str, Any] = {
            "places": side_by_side.compare_grids(cells[0], cells[1], judged),
            "differs": judged.differs,
            "notes": judged.notes,
            "rule": side_by_side.RULE,
        }
        if given.get("left_cell") and given.get("right_cell"):
            one, two = (self._cell(given, side)[1] for side in ("left_", "right_"))
            speed = judged.speeds.get((one.seconds, one.batch_size)) if one.label == two.label else None
            answer["pair"] = side_by_side.compare_cells(one, two, speed)
        return answer

    def _side_by_side_table(self, given: Arguments) -> Any:
        tables = [self._table(given, side) for side in ("left_", "right_")]
        left, right = (self._cell(given, side)[1] for side in ("left_", "right_"))
        for table, side in zip(tables, ("left", "right"), strict=True):
            if not table["rows"]:
                return {"rows": [], "message": f"On the {side}: {table.get('message', 'there is nothing to show.')}"}
        per_second = (left.seconds, left.batch_size) != (right.seconds, right.batch_size)
        noise = side_by_side.noise_of(left, right)
        rows = side_by_side.compare_rows(tables[0]["rows"], tables[1]["rows"], noise, per_second)
        remarks = [side_by_side.RULE_OF_ROWS, *([side_by_side.PER_SECOND] if per_second else [])]
        return {"rows": rows, "remarks": remarks, "noise": noise}

    def _trace_file(self, given: Arguments) -> Path:
        path = self._logs().file(self._logs().run(given["run"]), given["trace"])
        if not self._logs().is_trace(path):
            raise NotFound(f"{given['trace']!r} is not a trace.")
        return path

    def _trace(self, given: Arguments) -> Columns:
        return self._traces.get(self._trace_file(given), given.wanted)

    def _stamp(self, given: Arguments) -> str:
        return "-".join(map(str, stamp(self._trace_file(given))))

    def _kernels(self, given: Arguments) -> Any:
        columns = self._trace(given)
        return {"rows": gpu.kernel_rows(columns, gpu.activity(columns)), "remarks": [KERNELS]}

    def _cut(self, given: Arguments) -> Any:
        rows = given.whole("first", 0), given.whole("last", cut.MOST_ROWS)
        cuts = cut.cut(self._trace(given), *_window(given), given.whole("width"), *rows, given.get("search", ""))
        return cuts | {"stamp": self._stamp(given)}

    def _find(self, given: Arguments) -> Any:
        after = given.number("after") if given.get("after") else None
        return search.find(self._trace(given), given["search"], after, given.get("backwards") == "1")

    def _download(self) -> Any:
        @Request.application
        def serve(request: Request) -> Response:
            try:
                path = self._trace_file(Arguments(request))
            except UserError as error:
                return _error(request, str(error), 404)
            name = path.name.encode("ascii", "replace").decode().replace('"', "'")
            headers = {
                "Content-Disposition": f'attachment; filename="{name}"',
                "Content-Length": str(path.stat().st_size),
                "X-Content-Type-Options": "nosniff",
            }
            return Response(
                path.open("rb"), headers=headers, mimetype="application/octet-stream", direct_passthrough=True
            )

        return serve


def _window(given: Arguments) -> tuple[float, float]:
    return given.number("begin"), given.number("end")


def _json(answer: Answer) -> Any:
    @Request.application
    def serve(request: Request) -> Response:
        try:
            content = msgspec.json.encode(answer(Arguments(request)))
        except NotFound as error:
            return _error(request, str(error), 404)
        except UserError as error:
            return _error(request, str(error), 422)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            return _error(request, OTHER_FORM.format(f"{type(error).__name__}: {error}"), 422)
        except OSError as error:
            return _error(request, f"Cannot read a file of the log folder: {error.strerror}.", 404)
        return _respond(request, content, "application/json")

    return serve


def _error(request: Request, message: str, code: int) -> Response:
    return _respond(request, msgspec.json.encode({"error": message}), "application/json", code)


def _respond(request: Request, content: bytes, kind: str, code: int = 200) -> Response:
    answer: Response = Respond(request, content, kind, code)
    return answer


def _file(path: Path) -> Any:
    content = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "text/plain"

    @Request.application
    def serve(request: Request) -> Response:
        return _respond(request, content, kind)

    return serve
