"""The build hook: a wheel is built with cargo and npm, and tagged for the platform, not for one Python.

The binary and the preload library link no Python, so the tag is `py3-none-PLATFORM`. An editable
install builds nothing here: `make` keeps the files of a checkout fresh.
"""

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeHook(BuildHookInterface[Any]):
    """Runs scripts/build.py before the files of a wheel are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, and set the wheel's tag."""
        if version == "editable":
            return
        build = runpy.run_path(str(Path(self.root) / "scripts" / "build.py"))
        try:
            build["native"](only_products=True)
            build["web"]()
        except build["BuildError"] as error:
            self.app.abort(f"iotrail: error: {error}")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        build_data["pure_python"] = False
