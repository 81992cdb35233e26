"""InsightFace's own client, run by an interpreter that has it: MODEL IMAGES.npy OUT.npy. It imports nothing of ours."""

import sys

import numpy as np
from insightface.model_zoo import get_model  # type: ignore[import-not-found,import-untyped,unused-ignore]

model, images, out = sys.argv[1:]
client = get_model(model, providers=["CPUExecutionProvider"])
assert client.taskname == "recognition", client.taskname
print(type(client).__name__, client.input_size, client.input_mean, client.input_std)
bgr = [np.ascontiguousarray(image[:, :, ::-1]) for image in np.load(images)]  # as OpenCV reads them
np.save(out, np.concatenate([client.get_feat(image) for image in bgr]))
np.save(out.replace(".npy", "-batch.npy"), client.get_feat(bgr))
