"""The distribution of greatest entropy with given means (Jaynes, Information Theory and Statistical Mechanics, 1957).

It has the published statistics of a trace, and assumes nothing else. Shapes: C cells, K statistics.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEPS = 200  # of Newton's method; means that a distribution can have need some 20
TOLERANCE = 1e-9  # of a mean
MIN_STEP = 1e-9  # of Newton's step
LESS = 1e-4  # share of the predicted decrease that a step must reach (Armijo's rule)


def greatest_entropy(features: Floats, means: Floats) -> Floats:
    """Return the distribution [C] of greatest entropy whose means of the ``features`` [K, C] are ``means`` [K].

    It is exp(w . features), normalized, with the weights w that minimize log Z - w . means; Newton's method finds them.
    Where no distribution has these means, the one of the last step is returned: compare its means with yours.
    """
    weights = np.zeros(len(means))
    value, probabilities = _dual(weights, features, means)
    for _ in range(STEPS):
        mean = features @ probabilities
        gradient = mean - means
        if np.abs(gradient).max() < TOLERANCE:
            break
        curvature = (features * probabilities) @ features.T - np.outer(mean, mean)
        step = np.linalg.lstsq(curvature, -gradient, rcond=1e-12)[0]  # statistics may depend on each other
        size = 1.0
        next_value, next_probabilities = _dual(weights + step, features, means)
        while next_value > value + LESS * size * float(gradient @ step) and size > MIN_STEP:
            size /= 2
            next_value, next_probabilities = _dual(weights + size * step, features, means)
        weights, value, probabilities = weights + size * step, next_value, next_probabilities
    return probabilities


def _dual(weights: Floats, features: Floats, means: Floats) -> tuple[float, Floats]:
    """Return log Z - w . means, and the distribution [C] with the weights w."""
    exponent = weights @ features
    shift = exponent.max()
    unnormalized = np.exp(exponent - shift)
    total = float(unnormalized.sum())
    return float(np.log(total) + shift - weights @ means), unnormalized / total
