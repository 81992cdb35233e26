"""A small gallery of each kind, made by the engine itself and not by the code under test.

One file per store, named like its scheme, with

    @contextmanager
    def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]: ...

which makes a gallery in `folder`, yields its address, and stops what it started. `pytest.importorskip` skips an engine
that is not installed."""
