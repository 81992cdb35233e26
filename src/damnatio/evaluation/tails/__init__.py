"""The threshold at a target false-match rate from all non-mated pairs of a set, exactly, in one pass and in bounded
memory.

With N pairs and a target p, at most r = p N of them may be accepted, so the threshold is the lowest score above the
(r+1)-th largest. The pass (`scan`) computes narrow scores (see `scanning`), counts them in cells of width 2^-16
(`cells`), and keeps the pairs of the cells where the answer is expected (`window`). The expectation comes first from a
pilot on some of the vectors, then from the counts so far: whenever more than `CAP` pairs are kept, it shrinks. In the
end the counts say in which cell the (r+1)-th largest narrow score lies. If no narrow score is further than e from the
exact one, neither is this order statistic. So pairs more than 2e above it are above the exact one for certain, pairs
more than 2e below it are below, and the pairs between are scored exactly and sorted.

The narrow scores are those of float32. Where the answer lies high, few pairs matter, and a product of a narrower kind
can come first as a sieve: pairs that lie, by its bound, below everything that is counted need no float32 score.

If the answer lies outside what was kept, the counts say where it is, and a second pass keeps exactly that. If more than
`CAP` pairs lie within the bound of the answer (a collapsed model), passes in exact float64 zoom in on it (`zoom`). The
cells of the last pass are as wide as the spacing of scores, so that a tie of any size is one cell.
"""

from damnatio.evaluation.tails.tail import Tail, scan_tail

__all__ = ["Tail", "scan_tail"]
