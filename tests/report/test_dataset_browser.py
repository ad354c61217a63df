"""The page of a dataset in a browser: it draws without an error, and can be read and used by anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.report.chromium import check_contrast, check_keyboard, check_quiet, needs_browser, opened

pytestmark = needs_browser


def test_the_page_of_a_dataset_draws_and_a_click_names_the_command_of_a_world(browser: Any, tmp_path: Path) -> None:
    for name in ("pyarrow", "duckdb"):
        pytest.importorskip(name, reason="needs the extra dataset")
    from tests.study.test_dataset import drawn
    from topoflow.report.dataset.page import dataset_page
    from topoflow.report.dataset.reading import Reader
    from topoflow.report.dataset.summary import parts

    dataset, rows = drawn(tmp_path / "d.parquet", 3, 400)
    reader = Reader(dataset)
    (tmp_path / "d.html").write_text(dataset_page(reader, parts(reader)), encoding="utf-8")
    page = opened(browser, tmp_path / "d.html")
    check_quiet(page)
    assert set(page.execute_script("return topoflow.charts.map((each) => each.id)")) == {"scatter", "parallel"}
    check_contrast(page)
    check_keyboard(page)
    page.execute_script("choose(7)")
    number = page.execute_script("return page.rows[7].id").removeprefix("point-")
    configuration = page.execute_script("return document.getElementById('config').textContent")
    row = rows[int(number)]
    assert f"bandwidth_gbps={row['swept.bandwidth_gbps']:.0f}" in configuration
    assert f"workload.tables={row['swept.workload.tables']:.0f}" in configuration
