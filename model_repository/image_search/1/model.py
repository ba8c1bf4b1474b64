"""BLS: one picture through `detect`, the crop, `embedder` and `vector_search`."""

import json

import triton_python_backend_utils as pb_utils

from cropseek.errors import CropseekError
from cropseek.triton.bls import call_model, failed, logged_fault
from cropseek.triton.pipeline import Pipeline
from cropseek.triton.wire import to_tensors
from cropseek.types import PictureOptions


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        side, most = (int(parameters[k]["string_value"]) for k in ("crop_side", "most_crops"))
        self._pipeline = Pipeline(call_model, side, most)

    def execute(self, requests):
        return [self._search(request) for request in requests]

    def _search(self, request):
        image = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()[0]
        try:
            options = PictureOptions.from_json(json.loads(request.parameters()).get("options", ""))
            result = self._pipeline.run(image, options)
        except CropseekError as error:
            return failed(error)
        except Exception:  # a raise here would fail with its traceback
            return failed(logged_fault("image_search"))
        wanted = set(request.requested_output_names())
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(k, v) for k, v in to_tensors(result).items() if k in wanted]
        )
