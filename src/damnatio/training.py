"""Stages 4 and 5: the only training loop, for f* and for every method that fine-tunes it.

A run that is killed at any step and started again ends with the same weights, bit for bit on a CPU: batches are a
function of (seed, step), and a checkpoint holds backbone, head, method, optimiser and the state of torch's generator.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from damnatio.devices import device
from damnatio.embedding import embed_inputs
from damnatio.errors import DamnatioError
from damnatio.faces.base import Faces
from damnatio.heads.base import Head
from damnatio.inputs import Inputs, Pixels, Rows
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, Method, RetainBatch
from damnatio.models import Card, new_backbone, new_head, save_model, save_tensors
from damnatio.partitions import retain_set
from damnatio.progress import progress
from damnatio.recipe import Optimisation, Recipe
from damnatio.sampling import Batch, Batches, ForgetSampler, RetainSampler
from damnatio.tables import Table
from damnatio.workspace import CHECKPOINT, write_atomically

METRICS = "metrics.jsonl"


@dataclass
class Forgetting:
    """What fine-tuning adds to training: a method, the images it operates on, and f*."""

    method: Method
    images: ForgetSet
    original: nn.Module
    identities_per_batch: int
    images_per_identity: int
    freeze_batch_norm: bool


@dataclass
class Job:
    """A model to train: `forgetting` is None for f* itself."""

    title: str
    backbone: nn.Module
    head: Head
    card: Card
    inputs: Inputs
    rows: Rows
    labels: Rows
    settings: Optimisation
    lr: float
    seed: int
    forgetting: Forgetting | None = None
    whole: nn.Module | None = None
    """the network to save, where the backbone is only its tail"""


TRIAL, WORTH_SAYING = 8, 60.0
"""steps that tell how long all will take, and from how many seconds on that is said"""


def learning_rate(step: int, total: int, warmup: int, base: float, power: float) -> float:
    """Linear from base/warmup to base, then base (1 - t/T)^power, which reaches zero just after the last step."""
    if step < warmup:
        return base * (step + 1) / warmup
    return float(base * (1 - (step - warmup) / (total - warmup)) ** power)


def fit(job: Job, folder: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Train the job to its end in `folder`, from its checkpoint there if it has one. What is long says how long."""
    _Loop(job, folder, say).run()


class _Loop:
    def __init__(self, job: Job, folder: Path, say: Callable[[str], None] = lambda line: None) -> None:
        self.job, self.folder, self.settings, self.say = job, folder, job.settings, say
        self.device = next(job.backbone.parameters()).device
        self.retain = RetainSampler(job.rows, job.labels, self.settings.batch, job.seed)
        self.steps = self.settings.epochs * self.retain.steps_per_epoch
        self.warmup = round(self.settings.warmup_epochs * self.retain.steps_per_epoch)
        forgetting = job.forgetting
        sampler = None
        if forgetting:
            sampler = ForgetSampler(
                forgetting.images, forgetting.identities_per_batch, forgetting.images_per_identity, job.seed
            )
            forgetting.method.to(self.device)
        self.batches = Batches(job.inputs, self.retain, sampler, self.settings.flip, job.seed)
        self.modules: dict[str, nn.Module] = {"backbone": job.backbone, "head": job.head}
        if forgetting:
            self.modules["method"] = forgetting.method
        parameters = [p for module in self.modules.values() for p in module.parameters() if p.requires_grad]
        self.optimiser = _optimiser(parameters, self.settings, job.lr)

    def begin(self) -> int:
        """Everything as it was at the checkpoint, or as it is before the first step; the step to go on with."""
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
            generator=torch.Generator(),  # a loader must not draw from the stream that a resumed network goes on with
        )
        images_per_step = self.settings.batch
        saved = logged = time.monotonic()
        logged_step = start
        with (
            (self.folder / METRICS).open("a") as log,
            progress(self.job.title, self.steps * images_per_step, "images", start * images_per_step) as advance,
        ):
            for step, batch in zip(range(start, self.steps), loader, strict=True):
                parts = self._step(step, batch)
                now = time.monotonic()
                if step == start:
                    warm = now  # the first step pays for what the others find ready
                elif step == start + TRIAL:
                    left = (now - warm) / TRIAL * (self.steps - step - 1)
                    if left > WORTH_SAYING:
                        self.say(
                            f"{self.job.title}: about {left / 60:.0f} min for {self.steps - step - 1:,} steps to go"
                        )
                if (step + 1) % self.settings.log_every == 0 or step + 1 == self.steps:
                    speed = (step + 1 - logged_step) * images_per_step / (now - logged)
                    log.write(json.dumps(self._line(step, parts, speed)) + "\n")
                    log.flush()
                    logged, logged_step = now, step + 1
                if now - saved >= self.settings.checkpoint_seconds and step + 1 < self.steps:
                    self._save(step + 1)
                    saved = time.monotonic()
                advance(images_per_step, note="  ".join(f"{name} {value:.3f}" for name, value in parts.items()))
        whole = self.job.backbone if self.job.whole is None else self.job.whole
        save_model(whole, self.job.head, self.job.card, self.folder)

    def _step(self, step: int, batch: Batch) -> dict[str, float]:
        job, forgetting = self.job, self.job.forgetting
        if forgetting and step % self.retain.steps_per_epoch == 0:
            forgetting.method.begin_epoch(step // self.retain.steps_per_epoch, self._context())
            self._mode()
        lr = learning_rate(step, self.steps, self.warmup, job.lr, self.settings.power)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        x = job.inputs.prepare(batch.inputs, self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            raw = job.backbone(x)
        loss, parts = self._loss(x, raw.float(), batch)
        value = float(loss.detach())
        self.optimiser.zero_grad(set_to_none=True)
        if math.isfinite(value):
            loss.backward()  # type: ignore[no-untyped-call]
            norm = nn.utils.clip_grad_norm_(job.backbone.parameters(), self.settings.clip or math.inf)
            if bool(torch.isfinite(norm)):
                self.optimiser.step()
                return {"loss": value, **parts}
        raise DamnatioError(self._broken(step, value))

    def _loss(self, x: Tensor, raw: Tensor, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """The composite objective lambda_r L_retain + lambda_f L_forget, or the retain term alone for f*."""
        job, forgetting, cut = self.job, self.job.forgetting, len(batch.labels)
        labels = torch.from_numpy(batch.labels).to(self.device)
        if forgetting is None:
            return job.head(raw, labels), {}
        method, unit, frozen = forgetting.method, F.normalize(raw, dim=1), None
        if method.frozen_model:
            with torch.no_grad():
                frozen = F.normalize(forgetting.original(x).float(), dim=1)
        retain = RetainBatch(raw[:cut], unit[:cut], None if frozen is None else frozen[:cut], labels)
        forget = ForgetBatch(
            raw[cut:],
            unit[cut:],
            None if frozen is None else frozen[cut:],
            torch.from_numpy(batch.forget_rows).to(self.device),
            torch.from_numpy(batch.forget_identities).to(self.device),
        )
        retain_loss, forget_loss = method.retain_loss(retain, job.head), method.forget_loss(forget, job.head)
        loss = method.settings.lambda_retain * retain_loss + method.settings.lambda_forget * forget_loss
        return loss, {"retain": float(retain_loss.detach()), "forget": float(forget_loss.detach())}

    def _mode(self) -> None:
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
                units = embed_inputs(network, self.job.inputs, self.job.card.dim, forgetting.images.images, 512)
                return torch.from_numpy(units).to(self.device)

            return run

        return Context(
            forgetting.images,
            self.job.head,
            self.job.seed,
            embedder(self.job.backbone),
            embedder(forgetting.original),
        )

    def _line(self, step: int, parts: dict[str, float], speed: float) -> dict[str, Any]:
        return {
            "step": step + 1,
            "epoch": round((step + 1) / self.retain.steps_per_epoch, 3),
            "lr": self.optimiser.param_groups[0]["lr"],
            **parts,
            "images_per_second": round(speed, 1),
        }

    def _broken(self, step: int, loss: float) -> str:
        kept = self.folder / CHECKPOINT
        good = f"The last good checkpoint is kept in {kept}." if kept.exists() else "No checkpoint was due before it."
        what = f"The loss became {loss}" if not math.isfinite(loss) else "The gradient became non-finite"
        return (
            f"{what} at step {step + 1} of {self.steps} of {self.job.title}. {good} "
            "Lower the learning rate or the forget weight, or train in fp32."
        )

    def _save(self, step: int) -> None:
        tensors: dict[str, Tensor] = {"rng": torch.get_rng_state()}
        if self.device.type == "cuda":
            tensors["rng_cuda"] = torch.cuda.get_rng_state(self.device)
        for name, module in self.modules.items():
            tensors |= {f"{name}.{key}": tensor for key, tensor in module.state_dict().items()}
        for place, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{place}.{key}": value for key, value in state.items() if value is not None}
        sampler = {"seed": self.job.seed, "step": step, "epoch": step // self.retain.steps_per_epoch}
        metadata = {"step": str(step), "sampler": json.dumps(sampler), "folder": self.folder.name}
        save_tensors(tensors, self.folder / CHECKPOINT, {**metadata, "sha256": _digest(metadata, tensors)})

    def _resume(self) -> int:
        """Put everything back as it was after the checkpoint's step; 0 where there is none, or none that fits."""
        path = self.folder / CHECKPOINT
        metrics = self.folder / METRICS
        try:
            step, tensors = self._checkpoint(path)
        except (SafetensorError, FileNotFoundError, ValueError, KeyError) as error:
            if path.exists():
                self.say(f"{self.job.title}: the checkpoint {path} is damaged ({error}): the training starts anew")
            for leftover in (path, metrics):
                leftover.unlink(missing_ok=True)
            return 0
        for name, module in self.modules.items():
            module.load_state_dict(_below(name, tensors))
        state: dict[int, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            if key.startswith("optimiser."):
                _, place, entry = key.split(".")
                state.setdefault(int(place), {})[entry] = tensor
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        torch.set_rng_state(tensors["rng"])
        if "rng_cuda" in tensors and self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["rng_cuda"], self.device)
        _forget_lines_after(metrics, step)
        return step

    def _checkpoint(self, path: Path) -> tuple[int, dict[str, Tensor]]:
        """The step and the tensors of a checkpoint; an error that says why, if it is not one that this training
        wrote. Nothing is put anywhere before all of it is known to fit."""
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
            metadata = dict(file.metadata() or {})
        if metadata.pop("sha256", "") != _digest(metadata, tensors):
            raise ValueError("its content is not what was written")
        if metadata["folder"] != self.folder.name:
            raise ValueError(f"it is of {metadata['folder']}")
        for name, module in self.modules.items():
            if _shapes(_below(name, tensors)) != _shapes(module.state_dict()):
                raise ValueError(f"its {name} has tensors of other names or shapes")
        parameters = self.optimiser.param_groups[0]["params"]
        for name, tensor in _below("optimiser", tensors).items():
            if tensor.ndim and tensor.shape != parameters[int(name.split(".")[0])].shape:
                raise ValueError("its optimiser has tensors of other shapes")
        return int(metadata["step"]), tensors


def _below(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    prefix = f"{name}."
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _digest(metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """A hash of all that a checkpoint holds: its file format has none, and one changed byte makes another model."""
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _forget_lines_after(metrics: Path, step: int) -> None:
    """Steps after the checkpoint will be taken again: their lines would stand twice. So would the end of a line that
    was cut off."""
    if metrics.exists():
        kept = [line for line in metrics.read_bytes().splitlines() if (_step_of(line) or math.inf) <= step]
        write_atomically(metrics, b"".join(line + b"\n" for line in kept))


def _step_of(line: bytes) -> int | None:
    """The step that a line of the log tells of; None where the line is none."""
    try:
        step: int = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return step if isinstance(step, int) else None


def _optimiser(parameters: list[nn.Parameter], settings: Optimisation, lr: float) -> torch.optim.Optimizer:
    if settings.optimiser == "adamw":
        return torch.optim.AdamW(parameters, lr=lr, weight_decay=settings.weight_decay)
    return torch.optim.SGD(parameters, lr=lr, momentum=settings.momentum, weight_decay=settings.weight_decay)


def _as_it_is(batch: Any) -> Any:
    return batch


def set_threads(threads: int) -> None:
    """Two threads or twenty must give one result each time: the same number of threads, and deterministic kernels."""
    if threads:
        torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False


def original_job(recipe: Recipe, faces: Faces, partitions: Table) -> Job:
    """f* itself: the recipe's backbone and head, trained on the retain identities."""
    rows, labels = retain_set(partitions)
    model = recipe.model
    card = Card(backbone=model.backbone, dim=model.dim, size=faces.size, origin=f"trained by {recipe.name}")
    card = card.fed_as(model)
    torch.manual_seed(recipe.seed)
    return Job(
        title="f*",
        backbone=new_backbone(model.backbone, faces.size, model.dim).to(device()),
        head=new_head(model, int(labels.max()) + 1).to(device()),
        card=card,
        inputs=Pixels(faces, card),
        rows=rows,
        labels=labels,
        settings=recipe.train,
        lr=recipe.train.lr,
        seed=recipe.seed,
    )
