"""The cost of a gate, as a share of the forward pass of a MobileFaceNet, for more and more people.

usage: python benchmarks/gate.py [--people N ...] [--batches B ...] [--threads T ...] [--rounds R]

The network and the gates run in turn in one process, each gate after a pass of the network. A share is the ratio of two
medians of processor time: a neighbour on the machine takes wall time, not processor time. A gate runs on its own. The
time of an empty graph is taken off, since in a deployed file the gate is part of a graph that is called anyway.
`nobody`: no image is of a person in the gate, as nearly always; `somebody`: all are. In torch the scatter runs only
then; in an ONNX file, which has no control flow, it runs always.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn
from torch.nn import functional as F

import history
from damnatio.models.exporting import write_onnx
from damnatio.models.gate import Cone, Entry, Gate, Member, Record, Scatter, pseudonym
from damnatio.models.onnx.gate_nodes import gate_alone
from damnatio.models.statistics import Tail
from damnatio.models.store import new_backbone

DIM, WAVES, SIDE, OPSET = 512, 2048, 112, 18
FORWARD, EMPTY = "forward", "empty"
TARGET, PEOPLE = 0.06, 1_000
"""the most that a gate of so many people may cost: an ONNX graph reads the scatter for every image"""


def gate_of(people: int) -> Gate:
    random = torch.Generator().manual_seed(0)
    units = F.normalize(torch.randn(people, DIM, generator=random), dim=1)
    cone = Cone(centre=0.0, deviation=0.05, least=0.5)
    members = [
        Member(one[None], Entry(pseudonym=pseudonym(one[None]), photographs=4, caught=0.9, cones=[cone]))
        for one in units.numpy()
    ]
    tail = Tail(share=0.05, at=1.6, scale=0.45)
    record = Record(strangers=1e-4, tail=tail, source="random vectors", bandwidth=8.0, people=[])
    scatter = Scatter(
        frequencies=8 * torch.randn(WAVES, DIM, generator=random),
        phases=6.28 * torch.rand(WAVES, generator=random),
        spread=torch.randn(DIM, WAVES, generator=random) * (2 / WAVES / DIM) ** 0.5,
        mean=torch.zeros(DIM),
    )
    return Gate.of(members, record, ramp=0.05, scatter=scatter)


def empty_graph() -> bytes:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", DIM]) for name in ("raw", "out")]
    graph = helper.make_graph([helper.make_node("Identity", ["raw"], ["out"])], EMPTY, ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


def session(content: bytes, threads: int) -> Callable[[Tensor], Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting would count as work
    found = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    name = found.get_inputs()[0].name
    return lambda x: found.run(None, {name: x.numpy()})


def medians(forward: Callable[[], Any], runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The processor time of the forward pass and of each run, in turn. Each run follows a forward pass, which leaves
    its own data in the caches of the processor. The first round does not count."""
    times: dict[str, list[float]] = {FORWARD: [], **{name: [] for name in runs}}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            for timed, call in ((FORWARD, forward), (name, run)):
                started = time.process_time()
                call()
                times[timed].append(time.process_time() - started)
    return {name: statistics.median(found[len(found) // (rounds + 1) :]) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, nargs="+", default=[1, 10, 100, 1_000, 10_000, 100_000])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=20)
    o = parser.parse_args()
    network = new_backbone("mobilefacenet", SIDE, DIM).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        write_onnx(network, SIDE, path)
        graph = path.read_bytes()
    gates = {people: gate_of(people) for people in o.people}
    graphs = {people: gate_alone(gate, OPSET).SerializeToString() for people, gate in gates.items()}
    random, ratios = torch.Generator().manual_seed(1), dict[str, float]()
    print(f"{'':<12} {'threads':>7} {'batch':>5} {'forward':>10}   " + "".join(f"{f'{k:,}':>20}" for k in o.people))
    print(f"{'':<12} {'':>7} {'':>5} {'':>10}   " + f"{'nobody  somebody':>20}" * len(o.people))
    torch.set_num_threads(1)
    for runtime in ("onnxruntime", "torch"):
        for threads in o.threads if runtime == "onnxruntime" else [1]:
            if runtime == "onnxruntime":
                forward, empty = session(graph, threads), session(empty_graph(), threads)
                gated = {people: session(content, threads) for people, content in graphs.items()}
            else:
                forward, empty, gated = network, nn.Identity(), dict(gates)
            for batch in o.batches:
                x = torch.rand(batch, 3, SIDE, SIDE, generator=random)
                raw = torch.randn(batch, DIM, generator=random)
                runs: dict[str, Callable[[], Any]] = {EMPTY: partial(empty, raw)}
                for people, gate in gated.items():
                    inside = gates[people].directions[torch.arange(batch) % people] * 9
                    runs[f"{people} nobody"] = partial(gate, raw)
                    runs[f"{people} somebody"] = partial(gate, inside)
                with torch.inference_mode():
                    found = medians(partial(forward, x), runs, o.rounds if batch == 1 else max(3, o.rounds // 4))
                call, whole = found.pop(EMPTY), found.pop(FORWARD)
                shares = {name: (seconds - call) / whole for name, seconds in found.items()}
                cells = "".join(
                    f"{100 * shares[f'{k} nobody']:>9.2f} % {100 * shares[f'{k} somebody']:>6.2f} %" for k in o.people
                )
                label = f"{runtime:<12} {threads:>7} {batch:>5}"
                print(f"{label} {1e3 * whole:>7.1f} ms   {cells}", flush=True)
                ratios |= {f"{runtime}, {threads} threads, batch {batch}, {k}": v for k, v in shares.items()}
    for runtime in ("onnxruntime", "torch"):
        judged = [v for k, v in ratios.items() if k.startswith(runtime) and k.endswith(f" {PEOPLE} nobody")]
        if judged:
            worst = f"{PEOPLE:,} people cost at most {100 * max(judged):.2f} %"
            print(f"\n{runtime}: {worst} (target: {100 * TARGET:.0f} %)")
    history.append("gate", ratios, dim=DIM, waves=WAVES, network="mobilefacenet", rounds=o.rounds)


if __name__ == "__main__":
    main()
