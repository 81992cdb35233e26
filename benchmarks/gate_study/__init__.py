"""How gate and scatter (GS) behaves: eight studies on rendered faces and, where they are at hand, on real ones.

usage: python -m benchmarks.gate_study [--out FOLDER] [--work FOLDER] [--faces FOLDER --weights FILE] [--only STUDY ...]

Each study writes a table (CSV and markdown) and some draw a figure. `choices.py` holds everything that is tried.
"""
