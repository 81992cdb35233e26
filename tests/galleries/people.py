"""The people of the contract tests: random directions, a look-alike, and a person under two names."""

import numpy as np
from numpy.typing import NDArray

DIM, OTHERS, EACH = 64, 30, 4
ANN, TWIN, ALIAS = "Ann Lee", "Twin", "guest 7"
LEVEL = 0.7
"""between the cosines of one person's rows (0.9) and of Ann's and her twin's (0.5); strangers are near 0"""


def rows() -> tuple[list[str], NDArray[np.float32]]:
    """Ann has EACH rows under her name and one under ALIAS; Twin looks like her."""
    random = np.random.default_rng(7)

    def unit(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))

    def photographs(of: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        return unit(of + 0.33 * unit(random.standard_normal((count, DIM))))

    ann = unit(random.standard_normal(DIM))
    across = random.standard_normal(DIM)
    twin = unit(0.55 * ann + np.sqrt(1 - 0.55**2) * unit(across - (across @ ann) * ann))
    names = [ANN] * EACH + [ALIAS] + [TWIN] * EACH
    vectors = [photographs(ann, EACH), photographs(ann, 1), photographs(twin, EACH)]
    for other in range(OTHERS):
        names += [f"person {other:02d}"] * EACH
        vectors.append(photographs(unit(random.standard_normal(DIM)), EACH))
    order = random.permutation(len(names))
    return [names[row] for row in order], np.concatenate(vectors)[order].astype(np.float32)


def template(names: list[str], vectors: NDArray[np.float32], name: str = ANN) -> NDArray[np.float32]:
    """The mean direction of the rows under a name, [1, DIM]."""
    mean = vectors[[one == name for one in names]].mean(axis=0, keepdims=True)
    return np.asarray(mean / np.linalg.norm(mean), dtype=np.float32)
