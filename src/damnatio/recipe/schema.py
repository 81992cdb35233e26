"""The sections of a recipe and their keys. Defaults are the paper's numbers (section IV)."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, field_validator, model_validator

from damnatio.support.errors import nearest

Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Images = Annotated[int, Field(ge=1, le=65_536)]
"""a number of images that are held in memory at once"""
Name = Annotated[str, Field(pattern=r"^[\w.+-]+$")]
"""a name that can be part of a file's name"""
Seed = Annotated[int, Field(ge=0, lt=2**63)]
ExperimentName = Annotated[str, Field(pattern=r"^\w[\w+-]*$", max_length=64)]
"""a name that can be part of a folder's name and, without a dot, of `--set experiments.NAME.section.key`"""
Optimiser = Literal["sgd", "adamw"]
BatchNorm = Literal["train", "frozen"]
RetainTerm = Literal["classify", "distil"]
"""how a method keeps everybody else recognised: by the head's loss, or by the distance to f*(x)"""
PixelScale = Literal["input", "normalised"]
"""of pixel distances: values as the network takes them, or each image with zero mean and unit variance"""
MAX_SIDE = 512
"""the longest side of an aligned crop, in pixels"""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FaceSettings(Section):
    """Where the images come from. Each source adds its own keys in its own file under `faces/`."""

    source: str
    size: int = Field(112, ge=16, le=MAX_SIDE, description="side of the square images, in pixels")
    cache_gb: float = Field(8.0, ge=0, description="decoded pixels are stored on disk if they take no more than this")
    workers: int | None = Field(
        None,
        ge=0,
        le=256,
        description="processes that decode in stage 1; 0 decodes in the command; unset: one per core",
    )


class CaptureSettings(Section):
    threshold: float = Field(
        30.0,
        gt=0,
        description="two images closer than this are one capture instance (IV-B), as distances of 112x112x3 values",
    )
    scale: PixelScale = Field(
        "input",
        description="of the pixels: as the network takes them, -1 to 1; or each image with zero mean and unit variance",
    )


class PartitionSettings(Section):
    """How many identities each partition has (IV-A, IV-C and Table II)."""

    retain: Count = 100_000
    control: Count = 1_000
    test: Count = 1_000
    development: int = Field(35_850, ge=2)
    distractors: int = Field(50_000, ge=0)
    scales: dict[Name, Count] = Field({"S1": 1_000, "S2": 5_000}, min_length=1)
    min_images: Count = Field(4, description="images of an identity of the control, the test or the development set")
    test_min_images: int | None = Field(None, ge=2, description="the same for the test set; unset: min_images")
    development_min_images: Count | None = Field(
        None, description="the same for the development set; unset: min_images"
    )
    forget_min_images: int = Field(4, ge=2, description="capture instances or images of a forget identity")
    forget_counts: Literal["instances", "images"] = Field(
        "instances",
        description="what forget_min_images counts: capture instances, or images before one of each instance is kept",
    )
    order: Literal["retain-first", "scarcest-first"] = Field(
        "retain-first",
        description="who is drawn first: the retain set from everybody (IV-A), or the partitions that ask for most "
        "images, where faces are few",
    )
    pools: dict[Literal["F", "R", "T", "D", "B"], str] | None = Field(
        None,
        description="the pool of a collection that a partition is drawn from; unset: that of R, or all faces. Whoever "
        "is left in the pool of B is a bystander",
    )
    forget_train: Share = Field(0.8, description="share of a forget identity's images on which the losses operate")


class ModelSettings(Section):
    """The network and its classifier head (IV-A). With `weights`, f* is imported and not trained."""

    backbone: str = "iresnet34"
    dim: int = Field(512, ge=2, le=16_384)
    weights: Path | None = Field(None, description="of f*: a file, or a folder that holds a model and its card")
    colour: Literal["RGB", "BGR"] | None = Field(None, description="how f* is fed; unset: as its card says, or RGB")
    mean: float | None = Field(None, description="f* is fed (x - mean) / deviation; unset: as its card says, or 127.5")
    deviation: float | None = Field(None, gt=0, description="unset: as its card says, or 127.5")
    licence: str | None = Field(None, description="of f*'s weights, for its card; unset: as its card says")
    head: str = "cosface"
    logit_scale: float = Field(64.0, gt=0, le=10_000, description="the factor s of the cosines in the softmax")
    margin: float = Field(0.4, ge=0, le=10)
    head_options: dict[str, float] = {}
    partial_fc: Share | None = Field(
        None,
        description="the share of class vectors in the softmax of a step, beside those of its images; unset: all",
    )


class Optimisation(Section):
    """What the training loop needs, for f* and for every method alike."""

    epochs: Count = Field(40, le=1_000_000)
    batch: Images = Field(128, ge=2, description="retain images per step")
    optimiser: Optimiser = "sgd"
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(5e-4, ge=0)
    warmup_epochs: float = Field(0.0, ge=0)
    power: float = Field(1.0, ge=0, description="of the polynomial schedule: lr (1 - t/T)^power")
    clip: float = Field(5.0, ge=0, description="bound on the norm of the backbone's gradient; 0 for none")
    micro_batch: Images | None = Field(
        None,
        ge=2,
        description="images that a process computes at once; unset: its whole share of the batch. Less memory for a "
        "second forward pass; the result is the same unless BatchNorm follows its batches",
    )
    precision: Literal["fp32", "tf32", "bf16"] = Field(
        "fp32", description="of the network: tf32 is for GPUs; under bf16 the last layers and the head stay in fp32"
    )
    channels_last: bool = Field(True, description="the order of values in memory that convolutions like best")
    compile: bool = Field(False, description="let torch.compile fuse the network's operations; the first steps wait")
    flip: bool = Field(True, description="mirror each training image with probability one half")
    workers: int | None = Field(
        None, ge=0, le=256, description="processes that read images; 0 reads in the loop; unset: 4 per GPU, 0 without"
    )
    log_every: Count = 20
    probe_pairs: int = Field(
        64, ge=0, le=4_096, description="pairs of images whose similarity is logged while the model is trained; 0: none"
    )
    checkpoint_seconds: float = Field(30.0, ge=0, description="between two checkpoints, at the least")
    checkpoint_share: float = Field(
        0.01, gt=0, le=1, description="of the time that writing checkpoints may take: large ones are written less often"
    )

    @model_validator(mode="after")
    def _warm_up_ends(self) -> "Optimisation":
        if self.warmup_epochs >= self.epochs:
            raise ValueError(f"warmup_epochs ({self.warmup_epochs:g}) must be less than epochs ({self.epochs})")
        return self


class TrainSettings(Optimisation):
    lr: float = Field(0.1, gt=0)


class ForgetSettings(Optimisation):
    """Fine-tuning from f* (IV-B). A method's learning rate, weights and margins are its own, under `settings`."""

    scales: list[Name] = Field([], min_length=1, description="unset: all that partitions.scales has")
    methods: list[Name] = ["CURE", "NG+", "PD", "HD", "CP", "EC", "OF"]
    settings: dict[str, dict[str, Any]] = Field(
        {}, description="by method; `method: OF` under another name adds a variant"
    )
    retain: RetainTerm = Field(
        "classify", description="the retain term: the head's loss (III-C), or the mean of 1 - cos to f*(x)"
    )
    identities_per_batch: Images = 8
    images_per_identity: Images = Field(8, ge=2)
    batch_norm: BatchNorm = Field(
        "train", description="whether BatchNorm follows the fine-tuning batches or keeps the statistics of f*"
    )
    freeze: str | None = Field(
        None,
        description="the cut point up to which f* stays as it is: its activations there are kept, the rest is trained",
    )


class EvaluateSettings(Section):
    operating_points: list[Share] = Field([1e-4, 1e-2], min_length=1, max_length=100)
    nonmated_pairs: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="non-mated comparisons per group, drawn by the seed; 0 counts every one of them",
    )
    replicates: int = Field(
        1_000, ge=0, le=100_000, description="of the bootstrap over subjects; 0 gives Wilson's intervals only"
    )
    embed_batch: Images = 512

    @field_validator("operating_points")
    @classmethod
    def _ascending(cls, points: list[float]) -> list[float]:
        return sorted(set(points))


class ReportSettings(Section):
    names: bool = Field(False, description="whether the page names people; else it has pseudonyms, such as `person 07`")
    pictures: bool = Field(
        False, description="whether the page holds the photographs of its map, small: whoever has the file has them"
    )


class SlurmSettings(Section):
    """What `damnatio run --on slurm` asks for."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = Field(None, description="features of the nodes, as `sbatch --constraint` takes them")
    nodes: Count = Field(1, description="of a job that trains, embeds or evaluates")
    gpus: int = Field(1, ge=0, description="of each of these nodes")
    processes: Count | None = Field(None, description="of each of these nodes; unset: one per GPU, or one")
    cpus: Count = Field(8, description="cores of each process")
    memory_gb: float | None = Field(None, gt=0, description="of each node; unset: as the partition gives")
    hours: float = Field(24.0, gt=0, description="after which a job is stopped; it saves its state and queues again")
    warning_seconds: Count = Field(180, description="between the signal to stop and the end, for a last checkpoint")
    parallel: Count = Field(64, description="jobs of this run that may run at one time")
    setup: list[str] = Field([], description="lines of the shell before each job, such as `module load cuda`")


class Recipe(Section):
    name: str = Field(pattern=r"^[.-]*\w[\w.-]*$", description="of the run's folder; `..` is no name")
    seed: Seed = 1
    seeds: list[Seed] | None = Field(
        None, min_length=1, max_length=1_000, description="run all of it once with each of these in place of `seed`"
    )
    experiments: dict[ExperimentName, dict[str, Any] | None] | None = Field(
        None, min_length=1, description="by name: the sections in which an experiment differs from the recipe"
    )
    plugins: list[str] = Field([], description="Python files to import first: methods and other parts of your own")
    threads: int = Field(
        0,
        ge=0,
        le=1_024,
        description="processor threads; 0 takes one per core, on a busy machine too. The last bits of trained weights "
        "depend on the number: set it if two runs must be the same",
    )
    deterministic: bool = Field(
        True, description="let two runs on one machine give the same bits; on a GPU, false allows quicker kernels"
    )
    tensorboard: bool = Field(
        False, description="write losses and similarities for TensorBoard too, into `tensorboard/` of the run's folder"
    )
    faces: SerializeAsAny[FaceSettings]
    captures: CaptureSettings = CaptureSettings()
    partitions: PartitionSettings = PartitionSettings()
    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()
    forget: ForgetSettings = ForgetSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    report: ReportSettings = ReportSettings()
    slurm: SlurmSettings | None = Field(None, description="resources of `damnatio run --on slurm`")

    @model_validator(mode="after")
    def _consistent(self) -> "Recipe":
        counts = self.partitions
        if counts.control > counts.retain:
            raise ValueError(f"partitions.control ({counts.control}) is drawn from partitions.retain ({counts.retain})")
        if not self.forget.scales:  # a default of S1 and S2 would be wrong for a recipe of one scale
            forget = self.forget.model_copy(update={"scales": list(counts.scales)})
            forget.model_fields_set.discard("scales")  # an experiment with other scales fills in its own
            object.__setattr__(self, "forget", forget)
        for scale in self.forget.scales:
            if scale not in counts.scales:
                known = nearest(scale, counts.scales).rstrip(".")
                raise ValueError(f"forget.scales: there is no scale '{scale}'.{known}")
        for key, names in (("scales", self.forget.scales), ("methods", self.forget.methods)):
            if len(set(names)) < len(names):
                raise ValueError(f"forget.{key} names one of them twice")
        if self.seeds and len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds names one of them twice")
        if "original" in self.forget.methods:
            raise ValueError("forget.methods: 'original' is f* itself and always there")
        return self
