"""Decode, upright, letterbox in DALI: for the GPU profiles what model.py is for the CPU.

Triton serialises this pipeline when it loads the model, in a Python of its own: so nothing of
cropseek is imported here, and a test holds the pixels to cropseek.vision instead.
"""

from nvidia.dali import fn, pipeline_def, types
from nvidia.dali import math as dali_math
from nvidia.dali.plugin.triton import autoserialize

SIDE = 640
FILL = 114


@autoserialize
@pipeline_def(batch_size=16, num_threads=4, device_id=0)
def preprocess(decoding_device="mixed"):
    """Return LETTERBOXED, FITTED and FRAME.

    Without a GPU `decoding_device` is "cpu" and `device_id` None.
    """
    encoded = fn.external_source(name="IMAGE", dtype=types.UINT8, ndim=1)
    # Of the header: in DALI's older executor, which Triton runs, no size comes back from the GPU.
    size_hw = fn.cast(fn.peek_image_shape(encoded)[:2], dtype=types.FLOAT64)
    inner_hw = dali_math.max(_nearest(size_hw * (SIDE / dali_math.max(size_hw[0], size_hw[1]))), 1)
    pads_hw = dali_math.floor((SIDE - inner_hw) / 2)
    frame = fn.decoders.image(encoded, device=decoding_device, output_type=types.RGB)
    return _letterboxed(frame, inner_hw, pads_hw), _fitted(size_hw, inner_hw, pads_hw), frame


def _nearest(lengths):
    """Round halves to even, as Python does."""
    above = dali_math.floor(lengths + 0.5)
    is_odd = above - 2 * dali_math.floor(above / 2)
    return above - is_odd * (above - lengths == 0.5)


def _letterboxed(frame, inner_hw, pads_hw):
    height, width = (fn.cast(inner_hw[axis], dtype=types.FLOAT) for axis in (0, 1))
    inner = fn.resize(
        frame,
        resize_y=height,
        resize_x=width,
        interp_type=types.INTERP_LINEAR,
        antialias=False,
        subpixel_scale=False,
    )
    # A position is a share of the room that is left, which here is outside the picture.
    positions = fn.cast(pads_hw / dali_math.max(SIDE - inner_hw, 1), dtype=types.FLOAT)
    return fn.crop_mirror_normalize(
        inner,
        crop=(SIDE, SIDE),
        crop_pos_y=positions[0],
        crop_pos_x=positions[1],
        out_of_bounds_policy="pad",
        fill_values=FILL,
        dtype=types.UINT8,
        output_layout="CHW",
    )


def _fitted(size_hw, inner_hw, pads_hw):
    lengths = [pair[axis] for pair in (size_hw, inner_hw, pads_hw) for axis in (1, 0)]
    return fn.stack(*(fn.cast(length, dtype=types.INT32) for length in lengths))
