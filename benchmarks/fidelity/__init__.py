"""The evidence behind the readings in docs/fidelity.md:

    python benchmarks/fidelity table-two              which rule gives the forget counts of the paper's Table II
    python benchmarks/fidelity pixels [--faces LFW]   pixel distances on two scales, real and rendered
    python benchmarks/fidelity drawing                who is left for the partitions that are drawn later
    python benchmarks/fidelity trials --run RUN       readings of four methods against the paper's tables

Each writes a page to results/fidelity. The run of `trials` is that of benchmarks/fidelity/trials.yaml.
"""
