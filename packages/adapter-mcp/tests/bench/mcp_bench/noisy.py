"""A backend that prints wherever it can, and that hangs or dies when it is asked to."""

from __future__ import annotations

import os
from pathlib import Path

MODULE = '''
"""Prints."""
import ctypes, os, subprocess, sys, threading
from knowledge_engine.hookspecs import hookimpl
from knowledge_engine.memory import MemoryProvider

def shout(where):
    print("NOISE printed in", where)
    os.write(1, b"NOISE written\\n")
    libc = ctypes.CDLL(None)
    libc.puts(b"NOISE from C")
    libc.fflush(None)
    subprocess.run([sys.executable, "-c", "import sys; print('NOISE of a child', repr(sys.stdin.read()))"])

shout("import")

class Noisy(MemoryProvider):
    def query(self, query):
        if query.query == "begin":  # the server's own, which comes when it comes
            return super().query(query)
        shout("query")
        if query.query == "hang":
            threading.Event().wait()
        return super().query(query)

    def dispose(self):
        shout("dispose")
        super().dispose()

@hookimpl
def knowledge_backend():
    return {}

@hookimpl
def knowledge_open(environ):
    shout("open")
    return Noisy({"a.md": b"# A\\n\\nwater"})
'''


def install(folder: Path) -> dict[str, str]:
    """Installs it there as the backend `noisy`; the environment in which it is found."""
    info = folder / "noisy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[knowledge_engine.providers]\nnoisy = noisy_plugin\n")
    (folder / "noisy_plugin.py").write_text(MODULE)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}
