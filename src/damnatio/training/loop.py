"""Stages 4 and 5: the only training loop, for f* and for every method that fine-tunes it.

A run that is killed at any step and started again ends with the same weights, bit for bit on a CPU: the batches are a
function of (seed, step), and a checkpoint holds the backbone, the head, the method, the optimiser and the state of
torch's generator.

In a job of several processes each one embeds its share of the batch. The embeddings are brought together, and every
process computes the same loss of the whole batch: a method need not know of processes. The gradients of the backbone
are summed, and the rows of the head are divided among the processes. The weights are those of one process, but for the
last bits and for what the backbone draws at random.
"""

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader

from damnatio.heads.base import Head
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, Method, RetainBatch
from damnatio.models.card import Card
from damnatio.models.inputs import Inputs, Rows, embed_together
from damnatio.models.store import save_head, save_model
from damnatio.recipe.schema import Optimisation
from damnatio.support import processes
from damnatio.support.devices import use_tf32
from damnatio.support.errors import DamnatioError
from damnatio.support.exchange import GradientSum, any_of, gathered, same_everywhere
from damnatio.support.progress import progress
from damnatio.training.batch_norm import synchronised
from damnatio.training.checkpoints import Checkpoint, Schedule, drop_lines_after
from damnatio.training.embedding_pass import EmbeddingPass
from damnatio.training.optimiser import learning_rate, optimiser
from damnatio.training.sampling import Batch, Batches, ForgetSampler, RetainSampler
from damnatio.training.similarity import Similarity, pairs_of
from damnatio.training.stopping import Stopped, stop_requested

METRICS = "metrics.jsonl"
"""the log of the losses, one line per `log_every` steps"""
_EPOCH, _BACKBONE, _LOSS = 8, 9, 10  # streams of random numbers beside those of the batches
READERS = 4
"""processes that read images for a GPU. A core decodes some 11,000 small JPEGs a second (`make bench-train`), so one or
two should do and four leave room; no GPU was at hand to measure it. A processor that computes has no core to spare, and
reading took it 0.2 % of a step of iresnet-small."""


@dataclass
class Forgetting:
    """What fine-tuning adds to training: a method, the images that it forgets, and f*."""

    method: Method
    images: ForgetSet
    original: nn.Module
    identities_per_batch: int
    images_per_identity: int
    freeze_batch_norm: bool


@dataclass
class Job:
    """A model to train. `rows` are the retain images and `labels` their classes; `forgetting` is None for f* itself."""

    title: str
    backbone: nn.Module
    head: Head
    card: Card
    inputs: Inputs
    rows: Rows
    labels: NDArray[np.int64]
    settings: Optimisation
    lr: float
    seed: int
    forgetting: Forgetting | None = None
    whole: nn.Module | None = None
    """the network to save, if the backbone is only its tail"""


def fit(job: Job, folder: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Train the job to its end in `folder`, from the checkpoint there if there is one. Every process of a
    job calls this with the same arguments; the main process writes."""
    _Loop(job, folder, say if processes.is_main() else lambda line: None).run()


class _Loop:
    def __init__(self, job: Job, folder: Path, say: Callable[[str], None] = lambda line: None) -> None:
        self.job, self.folder, self.settings, self.say = job, folder, job.settings, say
        self.device = next(job.backbone.parameters()).device
        self.retain = RetainSampler(job.rows, job.labels, batch=self.settings.batch, seed=job.seed)
        self.steps = self.settings.epochs * self.retain.steps_per_epoch
        self.warmup = round(self.settings.warmup_epochs * self.retain.steps_per_epoch)
        forgetting = job.forgetting
        sampler = None
        if forgetting:
            sampler = ForgetSampler(
                forgetting.images,
                identities=forgetting.identities_per_batch,
                images=forgetting.images_per_identity,
                seed=job.seed,
            )
            forgetting.method.to(self.device)
        self.batches = Batches(job.inputs, self.retain, sampler, flip=self.settings.flip, seed=job.seed)
        job.head.share_out()
        self.modules: dict[str, nn.Module] = {"backbone": job.backbone, "head": job.head}
        if forgetting:
            self.modules["method"] = forgetting.method
        parameters = [p for module in self.modules.values() for p in module.parameters() if p.requires_grad]
        self.optimiser = optimiser(parameters, self.settings, job.lr)
        self.checkpoint = Checkpoint(folder, self.modules, self.optimiser)
        self.schedule = Schedule(self.settings.checkpoint_seconds, self.settings.checkpoint_share)
        gradients = GradientSum([p for p in job.backbone.parameters() if p.requires_grad])
        self.embedding = EmbeddingPass(self._fast(job.backbone), self.settings.precision, gradients)
        self.original = EmbeddingPass(self._fast(forgetting.original), self.settings.precision) if forgetting else None
        self.similarity = self._similarity()

    def _similarity(self) -> Similarity:
        job, count = self.job, self.settings.probe_pairs
        pairs = {"retain": pairs_of(job.rows, job.labels, count)}
        if job.forgetting:
            pairs["forget"] = pairs_of(job.forgetting.images.images, job.forgetting.images.identities, count)
        return Similarity(pairs, job.inputs, job.card.dim, self.folder)

    def _fast(self, network: nn.Module) -> nn.Module:
        """The network as the recipe wants it computed."""
        if not self.settings.channels_last:  # as they are made
            network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        if not self.settings.compile:
            return network
        if not any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))):
            raise DamnatioError(
                "The recipe says `compile: true`, which needs a C++ compiler, and there is none: install g++, or set "
                "train.compile and forget.compile to false."
            )
        return torch.compile(network)  # type: ignore[return-value]

    def begin(self) -> int:
        """Put everything as it was at the checkpoint, or as it is before the first step; the step to continue with."""
        torch.manual_seed(self.job.seed)
        start = self._resume()
        if start == 0 and self.job.forgetting:
            self.job.forgetting.method.prepare(self._context())
        for module in self.modules.values():
            same_everywhere(tensor for tensor in _tensors_of(module) if tensor is not self.job.head.weight)
        self._mode()
        return start

    def run(self) -> None:
        use_tf32(self.settings.precision == "tf32")
        try:
            with synchronised(self.job.backbone):
                self._run()
        finally:
            use_tf32(False)
        whole = self.job.backbone if self.job.whole is None else self.job.whole
        save_head(self.job.head, self.folder)
        processes.from_main(lambda: save_model(whole, None, self.job.card, self.folder))

    def _run(self) -> None:
        start = self.begin()
        images_per_step = self.settings.batch
        done, every = start * images_per_step, self.steps * images_per_step
        with (
            (self.folder / METRICS if processes.is_main() else Path(os.devnull)).open("a") as log,
            progress(self.job.title, every, "images", done) if processes.is_main() else nullcontext(_unseen) as advance,
        ):
            self._look(start, due=start == 0)
            logged, logged_step = time.monotonic(), start
            for step, batch in zip(range(start, self.steps), self._loader(start), strict=True):
                terms = self._step(step, batch)
                if (step + 1) % self.settings.log_every == 0 or step + 1 == self.steps:
                    speed = (step + 1 - logged_step) * images_per_step / (time.monotonic() - logged)
                    log.write(json.dumps(self._line(step, terms, speed)) + "\n")
                    log.flush()
                    self._look(step + 1, due=step + 1 == self.steps or self.similarity.is_due())
                    logged, logged_step = time.monotonic(), step + 1
                if step + 1 < self.steps:
                    self._save_if_due(step + 1)
                advance(images_per_step, note="  ".join(f"{name} {value:.3f}" for name, value in terms.items()))

    def _look(self, step: int, due: bool) -> None:
        """Measure how alike the pairs of images are. The main process does, with what every process has."""
        if due and processes.is_main():
            self.similarity.look(step, self.job.backbone, self._mode)

    def _loader(self, start: int) -> DataLoader[Batch]:
        """The batches of all steps that are left, read ahead by workers if there are any."""
        on_gpu = self.device.type == "cuda"
        workers = self.settings.workers
        if workers is None:
            workers = READERS if on_gpu else 0
        return DataLoader(
            self.batches,
            sampler=range(start, self.steps),
            batch_size=None,
            num_workers=workers,
            collate_fn=_as_it_is,
            pin_memory=on_gpu,
            generator=torch.Generator(),  # a loader must not draw from the generator that the network uses
        )

    def _save_if_due(self, step: int) -> None:
        """All processes save together: if the main process finds that it is time, or if any was asked to stop."""
        stop, due = any_of(stop_requested(), processes.is_main() and self.schedule.is_due())
        if stop or due:
            self._save(step)
        if stop:
            raise Stopped(
                f"{self.job.title} was asked to stop, and saved its state after step {step} of {self.steps}: the same "
                "command goes on from there."
            )

    def _step(self, step: int, batch: Batch) -> dict[str, float]:
        """One step of the optimiser; the loss and its terms. A loss or gradient that is not finite is an error."""
        job, forgetting = self.job, self.job.forgetting
        if forgetting and step % self.retain.steps_per_epoch == 0:
            self._seed(step, _EPOCH)
            forgetting.method.begin_epoch(step // self.retain.steps_per_epoch, self._context())
            same_everywhere(_tensors_of(forgetting.method))
            self._mode()
        lr = learning_rate(step, total=self.steps, warmup=self.warmup, base=job.lr, power=self.settings.power)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        job.head.begin_step(job.seed, step)
        x = job.inputs.prepare(batch.inputs.numpy(), self.device)
        if not self.settings.channels_last:
            x = x.contiguous()
        self._seed(step, _BACKBONE, processes.rank())
        raw = self.embedding(x, self._pieces(batch))
        self._seed(step, _LOSS)
        loss, terms = self._loss(x, raw, batch)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.embedding.backward(raw)
        norm = nn.utils.clip_grad_norm_(job.backbone.parameters(), self.settings.clip or math.inf)
        # one look at the numbers, since a GPU must have computed all of them before
        value, length, *parts = torch.stack([t.detach().double() for t in (loss, norm, *terms.values())]).tolist()
        if not (math.isfinite(value) and math.isfinite(length)):
            raise DamnatioError(self._broken(step, value))
        self.optimiser.step()
        return {"loss": value, **dict(zip(terms, parts, strict=True))}

    def _seed(self, step: int, *stream: int) -> None:
        """In a job of several processes, set torch's generator by the step: so a resumed run needs no state of each. A
        single process draws on from its seed."""
        if processes.size() > 1:
            torch.manual_seed(int(np.random.SeedSequence([self.job.seed, step, *stream]).generate_state(1)[0]))

    def _pieces(self, batch: Batch) -> int:
        """Into how many pieces every process divides its share of the batch."""
        if self.settings.micro_batch is None:
            return 1
        counts = len(batch.labels), len(batch.forget_rows)
        shares = [len(Batches.places(*counts, (rank, processes.size()))) for rank in range(processes.size())]
        return min(math.ceil(max(shares) / self.settings.micro_batch), *shares)

    def _loss(self, x: Tensor, own: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The composite objective lambda_r L_retain + lambda_f L_forget of the whole batch; for f* only the head's
        loss. `own` has the embeddings of this process's share."""
        job, forgetting, retained = self.job, self.job.forgetting, len(batch.labels)
        places, labels = batch.places.to(self.device), batch.labels.to(self.device)
        raw = gathered(own, places, len(batch))
        if forgetting is None:
            return job.head(raw, labels), {}
        method, frozen = forgetting.method, None
        if method.frozen_model or method.distils:
            count = len(batch) if method.frozen_model else retained
            seen = x[: int((batch.places < count).sum())]
            assert self.original is not None
            known = self.original.without_gradient(seen, self._pieces(batch))
            frozen = gathered(known, places[: len(seen)], count)
        retain = RetainBatch(
            raw=raw[:retained],
            frozen=None if frozen is None else frozen[:retained],
            labels=labels,
        )
        forget = ForgetBatch(
            raw=raw[retained:],
            frozen=None if frozen is None or not method.frozen_model else frozen[retained:],
            images=batch.forget_rows.to(self.device),
            identities=batch.forget_identities.to(self.device),
        )
        retain_loss, forget_loss = method.retain_loss(retain, job.head), method.forget_loss(forget, job.head)
        loss = method.settings.lambda_retain * retain_loss + method.settings.lambda_forget * forget_loss
        return loss, {"retain": retain_loss, "forget": forget_loss}

    def _mode(self) -> None:
        """Everything in training mode, but for BatchNorm where the recipe freezes it."""
        for module in self.modules.values():
            module.train()
        if self.job.forgetting and self.job.forgetting.freeze_batch_norm:
            for module in self.job.backbone.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()

    def _context(self) -> Context:
        forgetting = self.job.forgetting
        assert forgetting is not None

        def embedder(network: nn.Module) -> Callable[[], Tensor]:
            def run() -> Tensor:
                rows = forgetting.images.images
                found = embed_together(network, self.job.inputs, dim=self.job.card.dim, rows=rows, batch=512, raw=True)
                return torch.from_numpy(found).to(self.device)

            return run

        return Context(
            forget=forgetting.images,
            head=self.job.head,
            seed=self.job.seed,
            embed=embedder(self.job.backbone),
            embed_frozen=embedder(forgetting.original),
            folder=self.folder,
        )

    def _line(self, step: int, terms: dict[str, float], speed: float) -> dict[str, Any]:
        return {
            "step": step + 1,
            "epoch": round((step + 1) / self.retain.steps_per_epoch, 3),
            "lr": self.optimiser.param_groups[0]["lr"],
            **terms,
            "images_per_second": round(speed, 1),
        }

    def _broken(self, step: int, loss: float) -> str:
        kept = [path for path in self.checkpoint.paths if path.exists()]
        good = f"The last good checkpoint is kept in {kept[0]}." if kept else "No checkpoint was due before that step."
        what = f"The loss became {loss}" if not math.isfinite(loss) else "The gradient became non-finite"
        return (
            f"{what} at step {step + 1} of {self.steps} of {self.job.title}. {good} "
            "Lower the learning rate or the forget weight, or train in fp32."
        )

    def _save(self, step: int) -> None:
        started = time.monotonic()
        epoch = step // self.retain.steps_per_epoch
        self.checkpoint.save(step, sampler={"seed": self.job.seed, "step": step, "epoch": epoch})
        self.schedule.took(time.monotonic() - started)

    def _resume(self) -> int:
        """Put everything back as it was at the checkpoint; the number of steps done, 0 if there is no checkpoint that
        fits."""
        step = self.checkpoint.restore(lambda line: self.say(f"{self.job.title}: {line}"))
        if processes.is_main():
            log = self.folder / METRICS
            drop_lines_after(step, log) if step else log.unlink(missing_ok=True)
            self.similarity.go_on(step)
        return step


def _tensors_of(module: nn.Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _as_it_is(batch: Any) -> Any:
    return batch


def _unseen(count: int, note: str = "") -> None:
    """The progress of a process that prints nothing."""
