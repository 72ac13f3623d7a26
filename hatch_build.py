"""Compiles the event loop when the package is built or installed; in a checkout, `python hatch_build.py` does so too.

Without a C compiler the package holds no library, and the reference in Python is used: the same answers, more slowly.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # by hand, where hatchling is not installed
    BuildHookInterface = object

SOURCE = Path("simulator/engine/rounds/event_loop.c")
LIBRARY = SOURCE.with_name("event_loop.compiled")
# The same bits as the reference: no multiplication is fused with an addition, and no sum is taken in another order.
OPTIONS = ("-std=c99", "-O3", "-ffp-contract=off", "-fno-fast-math", "-fPIC", "-shared")


class EventLoopHook(BuildHookInterface):
    """A wheel with the compiled event loop fits one platform and every Python; without it, it fits all."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say what the wheel holds."""
        if self.target_name == "wheel" and compile_event_loop(Path(self.root)):
            build_data["artifacts"].append(LIBRARY.as_posix())
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform_tag()}"


def compile_event_loop(root: Path) -> bool:
    """Compile the library beside its source; whether that was possible."""
    library = root / LIBRARY
    library.unlink(missing_ok=True)
    compiler = os.environ.get("CC") or next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    if os.name == "nt" or compiler is None:
        return False
    # The number says from which source the library was compiled (simulator/engine/rounds/compiled_loop.py).
    number = zlib.crc32((root / SOURCE).read_bytes()) >> 1
    made = library.with_suffix(f".{os.getpid()}")
    command = [*compiler.split(), *OPTIONS, f"-DSOURCE={number}", "-o", str(made), str(root / SOURCE)]
    try:
        subprocess.run(command, check=True, timeout=120)
        made.replace(library)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"the event loop is not compiled, and Python is used in its place: {error}", file=sys.stderr)
        made.unlink(missing_ok=True)
        return False
    return True


def _platform_tag() -> str:
    tag = sysconfig.get_platform().replace("universal2", platform.machine())
    return tag.replace("-", "_").replace(".", "_")


if __name__ == "__main__":
    made = compile_event_loop(Path(__file__).parent)
    print("compiled" if made else "not compiled: no C compiler was found, or it failed")
    sys.exit(0 if made else 1)
