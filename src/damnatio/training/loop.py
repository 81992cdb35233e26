"""Stages 4 and 5: the only training loop, for f* and for every method that fine-tunes it.

A run that is killed at any step and started again ends with the same weights, bit for bit on a CPU: the batches are a
function of (seed, step), and a checkpoint holds the backbone, the head, the method, the optimiser and the state of
torch's generator.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from damnatio.heads.base import Head
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, Method, RetainBatch
from damnatio.models.card import Card
from damnatio.models.inputs import Inputs, Rows, embed_inputs
from damnatio.models.store import save_model
from damnatio.recipe.schema import Optimisation
from damnatio.support.errors import DamnatioError
from damnatio.support.progress import progress
from damnatio.training.checkpoints import Checkpoint, drop_lines_after
from damnatio.training.sampling import Batch, Batches, ForgetSampler, RetainSampler

METRICS = "metrics.jsonl"
"""the log of the losses, one line per `log_every` steps"""
TRIAL, WORTH_SAYING = 8, 60.0
"""After so many steps the time that remains is estimated, and reported if it is more than so many seconds."""


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


def learning_rate(step: int, *, total: int, warmup: int, base: float, power: float) -> float:
    """Linear from base/warmup to base, then base (1 - t/T)^power, which reaches zero just after the last step."""
    if step < warmup:
        return base * (step + 1) / warmup
    return float(base * (1 - (step - warmup) / (total - warmup)) ** power)


def fit(job: Job, folder: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Train the job to its end in `folder`, from the checkpoint there if there is one. A long training reports how
    long it will take."""
    _Loop(job, folder, say).run()


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
        self.modules: dict[str, nn.Module] = {"backbone": job.backbone, "head": job.head}
        if forgetting:
            self.modules["method"] = forgetting.method
        parameters = [p for module in self.modules.values() for p in module.parameters() if p.requires_grad]
        self.optimiser = _optimiser(parameters, self.settings, job.lr)
        self.checkpoint = Checkpoint(folder, self.modules, self.optimiser)
        self._warm = 0.0

    def begin(self) -> int:
        """Put everything as it was at the checkpoint, or as it is before the first step; the step to continue with."""
        torch.manual_seed(self.job.seed)
        start = self._resume()
        if start == 0 and self.job.forgetting:
            self.job.forgetting.method.prepare(self._context())
        self._mode()
        return start

    def run(self) -> None:
        start = self.begin()
        loader = DataLoader(
            self.batches,
            sampler=range(start, self.steps),
            batch_size=None,
            num_workers=self.settings.workers,
            collate_fn=_as_it_is,
            generator=torch.Generator(),  # a loader must not draw from the generator that the network uses
        )
        images_per_step = self.settings.batch
        saved = logged = time.monotonic()
        logged_step = start
        with (
            (self.folder / METRICS).open("a") as log,
            progress(self.job.title, self.steps * images_per_step, "images", start * images_per_step) as advance,
        ):
            for step, batch in zip(range(start, self.steps), loader, strict=True):
                terms = self._step(step, batch)
                now = time.monotonic()
                self._say_time_left(step, done=step - start, now=now)
                if (step + 1) % self.settings.log_every == 0 or step + 1 == self.steps:
                    speed = (step + 1 - logged_step) * images_per_step / (now - logged)
                    log.write(json.dumps(self._line(step, terms, speed)) + "\n")
                    log.flush()
                    logged, logged_step = now, step + 1
                if now - saved >= self.settings.checkpoint_seconds and step + 1 < self.steps:
                    self._save(step + 1)
                    saved = time.monotonic()
                advance(images_per_step, note="  ".join(f"{name} {value:.3f}" for name, value in terms.items()))
        whole = self.job.backbone if self.job.whole is None else self.job.whole
        save_model(whole, self.job.head, self.job.card, self.folder)

    def _say_time_left(self, step: int, done: int, now: float) -> None:
        """Estimate the remaining time from the trial steps. The first step does not count: it is slower."""
        if done == 0:
            self._warm = now
        elif done == TRIAL:
            left = self.steps - step - 1
            seconds = (now - self._warm) / TRIAL * left
            if seconds > WORTH_SAYING:
                self.say(f"{self.job.title}: about {seconds / 60:.0f} min for the remaining {left:,} steps")

    def _step(self, step: int, batch: Batch) -> dict[str, float]:
        """One step of the optimiser; the loss and its terms. A loss or gradient that is not finite is an error."""
        job, forgetting = self.job, self.job.forgetting
        if forgetting and step % self.retain.steps_per_epoch == 0:
            forgetting.method.begin_epoch(step // self.retain.steps_per_epoch, self._context())
            self._mode()
        lr = learning_rate(step, total=self.steps, warmup=self.warmup, base=job.lr, power=self.settings.power)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        x = job.inputs.prepare(batch.inputs, self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            raw = job.backbone(x)
        loss, terms = self._loss(x, raw.float(), batch)
        value = float(loss.detach())
        self.optimiser.zero_grad(set_to_none=True)
        if math.isfinite(value):
            loss.backward()  # type: ignore[no-untyped-call]
            norm = nn.utils.clip_grad_norm_(job.backbone.parameters(), self.settings.clip or math.inf)
            if bool(torch.isfinite(norm)):
                self.optimiser.step()
                return {"loss": value, **terms}
        raise DamnatioError(self._broken(step, value))

    def _loss(self, x: Tensor, raw: Tensor, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """The composite objective lambda_r L_retain + lambda_f L_forget; for f* only the head's loss."""
        job, forgetting, retained = self.job, self.job.forgetting, len(batch.labels)
        labels = torch.from_numpy(batch.labels).to(self.device)
        if forgetting is None:
            return job.head(raw, labels), {}
        method, unit, frozen = forgetting.method, F.normalize(raw, dim=1), None
        if method.frozen_model or method.distils:
            seen = x if method.frozen_model else x[:retained]
            with torch.no_grad():
                frozen = F.normalize(forgetting.original(seen).float(), dim=1)
        retain = RetainBatch(
            raw=raw[:retained],
            unit=unit[:retained],
            frozen=None if frozen is None else frozen[:retained],
            labels=labels,
        )
        forget = ForgetBatch(
            raw=raw[retained:],
            unit=unit[retained:],
            frozen=None if frozen is None or not method.frozen_model else frozen[retained:],
            images=torch.from_numpy(batch.forget_rows).to(self.device),
            identities=torch.from_numpy(batch.forget_identities).to(self.device),
        )
        retain_loss, forget_loss = method.retain_loss(retain, job.head), method.forget_loss(forget, job.head)
        loss = method.settings.lambda_retain * retain_loss + method.settings.lambda_forget * forget_loss
        return loss, {"retain": float(retain_loss.detach()), "forget": float(forget_loss.detach())}

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
                units = embed_inputs(
                    network, self.job.inputs, dim=self.job.card.dim, rows=forgetting.images.images, batch=512
                )
                return torch.from_numpy(units).to(self.device)

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
        kept = self.checkpoint.path
        good = (
            f"The last good checkpoint is kept in {kept}."
            if kept.exists()
            else "No checkpoint was due before that step."
        )
        what = f"The loss became {loss}" if not math.isfinite(loss) else "The gradient became non-finite"
        return (
            f"{what} at step {step + 1} of {self.steps} of {self.job.title}. {good} "
            "Lower the learning rate or the forget weight, or train in fp32."
        )

    def _save(self, step: int) -> None:
        epoch = step // self.retain.steps_per_epoch
        self.checkpoint.save(step, sampler={"seed": self.job.seed, "step": step, "epoch": epoch})

    def _resume(self) -> int:
        """Put everything back as it was at the checkpoint; the number of steps done, 0 if there is no checkpoint that
        fits."""
        log = self.folder / METRICS
        try:
            step = self.checkpoint.restore()
        except (FileNotFoundError, ValueError) as error:
            path = self.checkpoint.path
            if path.exists():
                self.say(f"{self.job.title}: the checkpoint {path} is damaged ({error}): the training starts anew")
            for leftover in (path, log):
                leftover.unlink(missing_ok=True)
            return 0
        drop_lines_after(step, log)
        return step


def _optimiser(parameters: list[nn.Parameter], settings: Optimisation, lr: float) -> torch.optim.Optimizer:
    if settings.optimiser == "adamw":
        return torch.optim.AdamW(parameters, lr=lr, weight_decay=settings.weight_decay)
    return torch.optim.SGD(parameters, lr=lr, momentum=settings.momentum, weight_decay=settings.weight_decay)


def _as_it_is(batch: Any) -> Any:
    return batch
