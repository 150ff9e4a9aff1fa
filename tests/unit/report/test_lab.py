"""The page of a lab, the table of different models, and the text file of a recipe's labels."""

from __future__ import annotations

from pathlib import Path

from profiler.report import labels
from profiler.report.lab import render_markdown, sections, write_lab
from profiler.report.models import models_table
from profiler.report.plots import draw_plots
from profiler.report.tables import build_tables
from profiler.results.types import Results
from tests.helpers import program, synthetic
from tests.unit.report.runs import full


def models() -> Results:
    made = full("small", "large")
    for number, model in enumerate(made.models):
        model.source = f"a/{model.variant}"
        model.parameters.total = 1000 * (number + 1)
    return made


def test_latency_is_told_as_mean_and_standard_deviation_of_k_calls() -> None:
    made = full()
    table = next(tables[0] for heading, tables, _ in sections(made) if heading == "Latency")
    time = made.cells[0].latency_s
    assert time is not None
    assert table.header[2:4] == ["k", "mean, ms"]
    assert table.rows[0][2] == str(time.n)
    assert float(table.rows[0][3].replace(",", "")) == float(f"{time.mean * 1000:.3g}")
    assert "dropped" in render_markdown(made)


def test_shared_parameters_are_named() -> None:
    made = full()
    assert "No model here shares any." in render_markdown(made)
    made.models[0].parameters.shared = [["embedding.weight", "output.weight"]]
    assert "Shared in float32: embedding.weight = output.weight." in render_markdown(made)


def test_what_grew_is_said_with_the_fit() -> None:
    said = " ".join(sentence for _, _, lines in sections(models()) for sentence in lines)
    assert "small: latency went from" in said
    assert "between 1 and 5 s (x5.0)" in said
    assert "the fit of latency over the length is" in said
    assert "By parameters, least first: small (1,000), large (2,000)." in said


def test_facts_of_unstable_figures_are_called_so() -> None:
    made = models()
    for cell in made.cells:
        cell.verdict = "stable"
    assert "may be chance" not in render_markdown(made)
    made.cells[0].verdict = "unstable"
    assert f"1 of {len(made.cells)} latencies are unstable (~)" in render_markdown(made)


def test_energy_that_was_not_measured_has_its_reason() -> None:
    made = full()
    for cell in made.cells:
        cell.energy_j, cell.energy_reason = None, "there is no sensor"
    assert "Not measured: there is no sensor" in render_markdown(made)


def test_machines_stand_side_by_side() -> None:
    here, there = full(), full()
    there.run.id, there.environment.cpu = "20260102-000000-0000", "Another CPU"
    assert "Another CPU" in render_markdown(here, [there])


def test_the_page_holds_the_plots_over_the_length(tmp_path: Path) -> None:
    made = models()
    _, page = write_lab(made, tmp_path, draw_plots(made, tmp_path))
    text = page.read_text()
    assert "Latency of one call over the length of the audio" in text
    assert text.count("<svg") >= 2
    assert "<h2>Machines</h2>" in text


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    folder = synthetic.save(synthetic.make(synthetic.Made(id="20260101-000000-0000")), tmp_path)
    ran = program.run("report", str(folder), "--lab", "--output", str(tmp_path / "out"))
    assert ran.returncode == 0, ran.stderr
    assert "## Facts for the discussion" in ran.stdout
    assert (tmp_path / "out" / "lab.html").is_file()
    assert program.run("report", str(folder), "--beside", str(folder)).returncode == 2


def test_different_models_have_one_table_with_all_their_figures() -> None:
    table = models_table("Models", models())
    assert table is not None
    assert {row[0] for row in table.rows} == {"small", "large"}
    assert [row[1] for row in table.rows if row[3] == "1 s x 1"] == ["1,000", "2,000"]
    assert build_tables(models())[0].title.startswith("Models - ")


def test_variants_of_one_model_have_no_such_table() -> None:
    assert models_table("Models", full("float32", "int8")) is None


def test_rows_of_named_labels_alone_as_plain_text(tmp_path: Path) -> None:
    made = full()
    assert labels.write(made, tmp_path) == []  # parts that the model has by itself
    for cell in made.cells:
        if cell.breakdown:
            cell.breakdown.automatic = False
    (file,) = labels.write(made, tmp_path)
    lines = file.read_text().splitlines()
    assert lines[0] == lines[2]
    assert set(lines[0]) == {"-", " "}
    assert lines[3].strip().startswith("front end")
    assert len(lines) == 5  # neither (rest) nor (whole call)
