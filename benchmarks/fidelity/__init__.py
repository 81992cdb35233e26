"""The evidence behind the readings in docs/fidelity.md:

    python benchmarks/fidelity table-two              which rule gives the forget counts of the paper's Table II
    python benchmarks/fidelity pixels [--faces LFW]   pixel distances on two scales, real and rendered
    python benchmarks/fidelity drawing                who is left for the partitions that are drawn later
    python benchmarks/fidelity trials                 readings of four methods against the paper's tables
    python benchmarks/fidelity why why-young why-batch
                                                      what differs in the tenth, with one thing changed at a time

Each writes a page to results/fidelity. The last four are made of the runs of the recipes beside this file.
"""
