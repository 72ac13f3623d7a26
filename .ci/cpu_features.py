"""Print what NPY_DISABLE_CPU_FEATURES takes to make this machine older: without AVX-512, and without AVX2 either.

One line for each; nothing where the machine has neither. NumPy groups and names the features by its version.
"""

import numpy as np

core = np._core if hasattr(np, "_core") else np.core
umath = core._multiarray_umath
optional = [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__.get(name)]
avx512 = [name for name in optional if name.startswith("AVX512") or name == "X86_V4"]
avx2 = [name for name in optional if name in ("AVX2", "FMA3", "X86_V3")]
for group in (avx512, [*avx512, *avx2]):
    if group:
        print(" ".join(group))
