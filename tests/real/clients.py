"""Programs that run recognisers in service, by an interpreter that has them. It imports nothing of ours.

usage: clients.py MODEL IMAGES.npy OUT MEAN DEVIATION CLIENT BATCH [CLIENT BATCH ...]

OUT-CLIENT-BATCH.npy gets the embeddings of the images, which are RGB bytes, N x 112 x 112 x 3.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Embed = Callable[[Any], Any]
SIZE = (112, 112)


def opencv(model: str, mean: float, deviation: float) -> Embed:
    import cv2  # type: ignore[import-not-found,unused-ignore]

    net = cv2.dnn.readNetFromONNX(model)

    def embed(images: Any) -> Any:
        net.setInput(cv2.dnn.blobFromImages(list(images), 1 / deviation, SIZE, (mean,) * 3))
        return net.forward().copy()

    return embed


def face_recognizer_sf(model: str, *_: float) -> Embed:
    import cv2  # type: ignore[import-not-found,unused-ignore]

    client = cv2.FaceRecognizerSF.create(model, "")
    return lambda images: np.concatenate([client.feature(np.ascontiguousarray(i[..., ::-1])).copy() for i in images])


def openvino(model: str, mean: float, deviation: float) -> Embed:
    import openvino as ov  # type: ignore[import-not-found,unused-ignore]

    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def embed(images: Any) -> Any:
        x = (images.transpose(0, 3, 1, 2).astype(np.float32) - mean) / deviation
        return np.array(compiled([np.ascontiguousarray(x, dtype=np.float32)])[compiled.output(0)])

    return embed


def insightface(model: str, *_: float) -> Embed:
    from insightface.model_zoo import get_model  # type: ignore[import-not-found,import-untyped,unused-ignore]

    client = get_model(model, providers=["CPUExecutionProvider"])
    assert type(client).__name__ == "ArcFaceONNX", type(client).__name__
    return lambda images: client.get_feat([np.ascontiguousarray(image[..., ::-1]) for image in images])


CLIENTS: dict[str, Callable[..., Embed]] = {
    "opencv": opencv,
    "FaceRecognizerSF": face_recognizer_sf,
    "openvino": openvino,
    "insightface": insightface,
}

if __name__ == "__main__":
    model, file, out, mean, deviation, *wanted = sys.argv[1:]
    images = np.load(file)
    for name, batch in zip(wanted[::2], map(int, wanted[1::2]), strict=True):
        embed = CLIENTS[name](model, float(mean), float(deviation))
        found = np.concatenate([embed(images[i : i + batch]) for i in range(0, len(images), batch)])
        np.save(f"{out}-{name}-{batch}.npy", found)
