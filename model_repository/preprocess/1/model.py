"""Decode, upright, letterbox: one process, as many threads as cores."""

from concurrent.futures import ThreadPoolExecutor

import triton_python_backend_utils as pb_utils

from cropseek.errors import CropseekError, InvalidInput
from cropseek.settings import Settings
from cropseek.triton.bls import failed, logged_fault
from cropseek.triton.cores import usable_cores
from cropseek.triton.frame import to_send
from cropseek.vision.decode import DecodeLimits, decode_image
from cropseek.vision.geometry import letterbox


class TritonPythonModel:
    def initialize(self, args):
        settings = Settings()
        self._limits = DecodeLimits(settings.max_image_bytes, settings.max_image_pixels)
        self._threads = ThreadPoolExecutor(usable_cores())

    def execute(self, requests):
        if len(requests) == 1:
            return [self._preprocess(requests[0])]
        return list(self._threads.map(self._preprocess, requests))

    def _preprocess(self, request):
        images = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()
        try:
            if len(images) != 1:
                raise InvalidInput(f"IMAGE: expected one picture a request, got {len(images)}")
            frame = decode_image(images[0], self._limits)
            square, fitted = letterbox(frame, 640)
        except CropseekError as error:
            return failed(error)
        except Exception:  # a neighbour in the batch must not pay for it
            return failed(logged_fault("preprocess"))
        outputs = {"LETTERBOXED": square, "FITTED": fitted.to_array(), "FRAME": to_send(frame)}
        wanted = request.requested_output_names()
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, outputs[name][None]) for name in wanted]
        )
