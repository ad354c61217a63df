"""Groups of machines of a trace: those of one user that are alike and live equally long."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from calibration.group_requests import groups, rank_correlation


def test_a_group_has_one_user_one_type_and_one_lifetime(tmp_path: Path) -> None:
    a, b = tmp_path / "machines", tmp_path / "lifetimes"
    a.write_text("0 " + "m," * 50 + "|," + "m," * 60 + "g," * 49 + "|,\n300 " + "m," * 60 + "|,\n")
    b.write_text("0 " + "U7," * 50 + "|," + "U7," * 60 + "U7," * 49 + "|,\n300 " + "U7," * 30 + "C3," * 30 + "|,\n")
    assert list(groups(a, b)) == [(50, 7), (60, 7), (49, 7)]


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    a, b = tmp_path / "machines", tmp_path / "lifetimes"
    a.write_text("0 m,|,\n")
    b.write_text("300 U7,|,\n")
    with pytest.raises(ValueError, match="must have the times of machines, got 300 for 0"):
        list(groups(a, b))


def test_a_rank_correlation_knows_no_scale() -> None:
    numbers = np.array([1, 2, 2, 50])
    assert rank_correlation(numbers, numbers**3) == pytest.approx(1)
    assert rank_correlation(numbers, -(numbers**3)) == pytest.approx(-1)
