"""The page of `cropseek demo`: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

import cv2

from cropseek import __version__
from cropseek.client.results import BoxXyxy
from cropseek.types import Uint8Array
from cropseek.vision.draw import class_color, readable_on
from cropseek.vision.encode import encode_jpeg

if TYPE_CHECKING:
    from cropseek.demo import Demo, FoundObject, LookAlike

_THUMBNAIL_W = 260
_STAGES = {
    "wait": "for its turn in the service",
    "detect": "decode, letterbox, detector",
    "crop": "cut out and align each object",
    "embed": "a vector for each object",
    "search": "nearest vectors",
    "catalog": "what is known of each hit",
}
_VERDICTS = {
    "right": "✓ found again",
    "wrong": "✗ something else is nearer",
    "new": "never indexed",
}


def render_page(demo: Demo) -> str:
    """Return the page, pictures inside."""
    template = resources.files("cropseek.web").joinpath("demo.html").read_text("utf-8")
    return Template(template).substitute(
        headline=escape(demo.headline),
        story=(
            f"{len(demo.indexed)} frames of two videos were indexed, "
            f"{demo.items} objects in all. Then one more frame was the question: "
            "which of its objects have been seen before, and where?"
        ),
        facts="".join(_facts(demo)),
        query_title=escape(f"frame {demo.query.number} of {demo.query.video}"),
        query_image=_data_uri(encode_jpeg(demo.query.image_rgb, 90)),
        boxes="".join(_boxes(demo)),
        rule=(
            "The right answers are known: around the query the camera stands still and so do "
            "these objects, so the same object is the one in the same place, "
            f"{demo.frames_between} or more frames earlier. Those have a green border. "
            "Position plays no part in the search."
        ),
        objects="".join(_object(number, found, demo) for number, found in _numbered(demo)),
        stages="".join(_stages(demo.timings_ms)),
        indexed_count=len(demo.indexed),
        gallery="".join(_gallery(demo)),
        version=escape(__version__),
    )


def _facts(demo: Demo) -> Iterable[str]:
    rate = len(demo.indexed) / demo.index_s
    facts = {
        "pictures indexed": f"{len(demo.indexed)}",
        "objects in them": f"{demo.items}",
        "pictures a second": f"{rate:.1f}",
        "for one search": f"{demo.search_s * 1e3:.0f} ms",
    }
    return (
        f'<div class="fact"><b>{value}</b><span>{name}</span></div>'
        for name, value in facts.items()
    )


def _numbered(demo: Demo) -> Iterable[tuple[int, FoundObject]]:
    return enumerate(demo.objects, start=1)


def _boxes(demo: Demo) -> Iterable[str]:
    height, width = demo.query.image_rgb.shape[:2]
    corners: list[tuple[float, float]] = []
    for number, found in _numbered(demo):
        x1, y1, x2, y2 = found.detection.box_xyxy
        near = sum(abs(x - x1) < width / 8 and abs(y - y1) < height / 20 for x, y in corners)
        corners.append((x1, y1))
        place = (
            f"left:{x1 / width:.3%};top:{y1 / height:.3%};"
            f"width:{(x2 - x1) / width:.3%};height:{(y2 - y1) / height:.3%}"
        )
        label = f"<span> {escape(found.detection.label)}</span>"
        yield (
            f'<div class="box" style="{_color(found)};--shift:{near};{place}">'
            f'<div class="number">{number}{label}</div></div>'
        )


def _object(number: int, found: FoundObject, demo: Demo) -> str:
    detection = found.detection
    crop = _crop(demo.query.image_rgb, detection.box_xyxy)
    alikes = "".join(_alike(alike) for alike in found.look_alikes)
    return f"""
<section class="object">
<header>
<span class="number" style="{_color(found)}">{number}</span>
<b>{escape(detection.label)}</b><span class="soft">score {detection.score:.2f}</span>
<span class="verdict {found.verdict}">{_VERDICTS[found.verdict]}</span>
</header>
<div class="row">
<figure class="crop-of-query"><div class="crop"><img src="{crop}" alt=""></div>
<figcaption>in the query</figcaption></figure>
<div class="alikes">{alikes}</div>
</div>
</section>"""


def _alike(alike: LookAlike) -> str:
    neighbor = alike.neighbor
    crop = _crop(alike.frame.image_rgb, neighbor.box_xyxy)
    full = max(neighbor.similarity, 0.0)
    mark = '<span class="right" title="the same object">✓</span>' if alike.right else ""
    return f"""
<figure class="alike {"right" if alike.right else ""}">
<div class="crop"><img src="{crop}" alt="{escape(neighbor.label)}"></div>
<figcaption><b>{neighbor.similarity:.3f}</b> {mark}
<div class="meter"><i style="width:{full:.1%}"></i></div>
{escape(neighbor.label)}, {escape(alike.frame.title)}</figcaption>
</figure>"""


def _stages(timings_ms: dict[str, float]) -> Iterable[str]:
    total = timings_ms.get("total", sum(timings_ms.values()))
    stages = [
        (name, about, timings_ms[name]) for name, about in _STAGES.items() if name in timings_ms
    ]
    rest = total - sum(ms for _, _, ms in stages)
    longest = max([ms for _, _, ms in stages] + [rest, 1e-9])
    for name, about, ms in [*stages, ("between", "calls and copies", max(rest, 0.0))]:
        yield (
            f'<div class="name">{name}<small>{about}</small></div>'
            f'<div class="bar"><i style="width:{ms / longest:.1%}"></i></div>'
            f'<div class="ms">{ms:.1f} ms</div>'
        )
    yield '<div class="sum">total</div><div class="sum"></div>'
    yield f'<div class="ms sum">{total:.1f} ms</div>'


def _gallery(demo: Demo) -> Iterable[str]:
    for frame, detections in demo.indexed:
        height, width = frame.image_rgb.shape[:2]
        size = (_THUMBNAIL_W, max(1, round(_THUMBNAIL_W * height / width)))
        small = cv2.resize(frame.image_rgb, size, interpolation=cv2.INTER_AREA)
        uri = _data_uri(encode_jpeg(small.astype("uint8"), 75))
        plural = "" if len(detections) == 1 else "s"
        about = f"{frame.title}: {len(detections)} object{plural}"
        yield (
            f'<figure><img src="{uri}" alt="{escape(about)}" loading="lazy">'
            f"<figcaption>{escape(about)}</figcaption></figure>"
        )


def _color(found: FoundObject) -> str:
    color = class_color(found.detection.label)
    return f"--color:rgb{color};--on-color:rgb{readable_on(color)}".replace(" ", "")


def _crop(image_rgb: Uint8Array, box_xyxy: BoxXyxy) -> str:
    """Return a box's pixels, at least one, as a data URI."""
    height, width = image_rgb.shape[:2]
    x1, y1 = min(int(box_xyxy[0]), width - 1), min(int(box_xyxy[1]), height - 1)
    x2, y2 = max(round(box_xyxy[2]), x1 + 1), max(round(box_xyxy[3]), y1 + 1)
    return _data_uri(encode_jpeg(image_rgb[y1:y2, x1:x2], 88))


def _data_uri(jpeg: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode("ascii")
