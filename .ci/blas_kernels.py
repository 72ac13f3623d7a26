"""Print the kernels of OpenBLAS (OPENBLAS_CORETYPE) that this machine can run, one a line; none on other processors."""

import numpy as np

NEEDED = {
    "Haswell": ("AVX2", "FMA3"),
    "SkylakeX": ("AVX512_SKX",),
    "Zen": ("AVX2", "FMA3"),
    "Sandybridge": ("AVX",),
    "Prescott": ("SSE3",),
}
core = np._core if hasattr(np, "_core") else np.core
features = core._multiarray_umath.__cpu_features__
for kernel, needed in NEEDED.items():
    if all(features.get(name) for name in needed):
        print(kernel)
