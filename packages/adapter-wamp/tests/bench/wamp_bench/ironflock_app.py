"""Apps on the real IronFlock SDK, each version in its own Python."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from wamp_bench.node_config import IRONFLOCK, IronflockIdentity
from wamp_bench.places import clean_environment, program
from wamp_bench.router import Router

VERSIONS = ("1.5.3", "1.10.1")


class IronflockApp:
    """A running script. `output` is what it and the SDK have printed so far, line by line, of both streams."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.output: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="ironflock-output", daemon=True)
        self._reader.start()

    def wait_for(self, text: str, seconds: float = 60.0) -> str:
        """The first line that holds `text`, printed before or yet to come.

        Raises:
            RuntimeError: When the script ends or `seconds` pass without one; its output is quoted.
        """
        deadline = time.monotonic() + seconds
        with self._more:
            while True:
                for line in self.output:
                    if text in line:
                        return line
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    raise RuntimeError(f"the app did not print {text!r}. It printed:\n" + "\n".join(self.output))
                self._more.wait(min(left, 0.5))

    def end(self) -> None:
        """By force, if it runs yet."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(20)
        self._reader.join(20)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            with self._more:
                self.output.append(line.rstrip("\n"))
                self._more.notify_all()


@contextmanager
def ironflock_app(
    version: str,
    script: str,
    router: Router,
    *,
    url: str | None = None,
    identity: IronflockIdentity = IRONFLOCK,
    env: Mapping[str, str] | None = None,
) -> Iterator[IronflockApp]:
    """Runs `script`, Python source, in the Python of that SDK as an app of the platform is run; ends it afterwards.

    `IronFlock()` in it joins `identity.realm` of `router`; a function it registers under `topic` is
    `{identity.prefix}.{topic}`. `url` leads elsewhere, such as to a proxy. The script should print a line when it
    is ready, to be waited for.
    """
    command = [str(program(f".venv-ironflock-{version}/bin/python")), "-c", script]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**clean_environment(), **_given(url or router.url, identity), **(env or {})},
    )
    app = IronflockApp(process)
    try:
        yield app
    finally:
        app.end()


def run_ironflock(
    version: str,
    script: str,
    router: Router,
    *,
    url: str | None = None,
    identity: IronflockIdentity = IRONFLOCK,
    env: Mapping[str, str] | None = None,
    seconds: float = 120.0,
) -> list[str]:
    """Runs a script that ends by itself, and returns the lines that it printed.

    Raises:
        RuntimeError: When it ends with an error, which is quoted.
        subprocess.TimeoutExpired: After `seconds`.
    """
    with ironflock_app(version, script, router, url=url, identity=identity, env=env) as app:
        code = app.process.wait(seconds)
        app.end()
        if code:
            raise RuntimeError(f"the app ended with {code}:\n" + "\n".join(app.output))
        return app.output


def _given(url: str, identity: IronflockIdentity) -> dict[str, str]:
    """What the platform gives to a container; the SDK takes the path of the address for its own."""
    return {
        "DEVICE_ENDPOINT_URL": url,
        "DEVICE_SERIAL_NUMBER": identity.serial,
        "DEVICE_KEY": str(identity.device),
        "DEVICE_NAME": "test-device",
        "SWARM_KEY": str(identity.swarm),
        "APP_KEY": str(identity.app),
        "APP_NAME": "test-app",
        "ENV": identity.env,
        "IRONFLOCK_ENV_DIR": os.devnull,  # no values of a platform that may be there
        "PYTHONUNBUFFERED": "1",
    }
