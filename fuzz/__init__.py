"""A fuzz campaign: it feeds damaged, hostile and random files to every reader, for a given time.

    make fuzz                       one minute, each reader in turn
    make fuzz SECONDS=1800          half an hour
    python -m fuzz --readers onnx,tar --seconds 60
    python -m fuzz --replay fuzz-findings/onnx-traceback-412.onnx

A reader may accept a file, or refuse it with our sentence (a `DamnatioError`, or an item skipped with its reason).
Anything else is a finding:

- *traceback*: any other exception;
- *crash*: the process ended (a segmentation fault, an abort);
- *hang*: ten seconds of processor time, or a minute on the clock, for one small file;
- *execution*: the file made the process start a program, unpickle a class, open a connection or write outside its
  folder;
- *blow-up*: the file made the process ask for more than a gibibyte above what it began with, whether or not a sentence
  followed.

A finding is saved under its reader, its kind and its seed, once for each place in the source that it comes from. The
exit code is then 1. `mutations.py` and `structures.py` make the files, `readers/` holds one small adapter for each
reader, `worker.py` is the guarded process that reads, `campaign.py` watches it.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # other pools reserve a gibibyte before they need it
