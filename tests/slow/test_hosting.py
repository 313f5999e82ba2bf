"""The steps of docs/hosting/Dockerfile, run in a fresh environment as another user: install, start, health, login."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.live import free_address

ROOT = Path(__file__).resolve().parents[2]
HOSTING = ROOT / "docs" / "hosting"
DOCKERFILE = (HOSTING / "Dockerfile").read_text(encoding="utf-8")
USER = 10001
PYTHON = Path(sys.executable).resolve()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("processes"),
    pytest.mark.skipif(not os.environ.get("SPU_SLOW"), reason="installs the whole package; SPU_SLOW=1 runs it"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user"),
    pytest.mark.skipif(
        not all(folder.stat().st_mode & 0o001 for folder in PYTHON.parents),
        reason="this Python is in a folder that other users cannot enter",
    ),
]
SECRETS = """[auth]
redirect_uri = "https://studio.example/oauth2callback"
cookie_secret = "0123456789abcdef0123456789abcdef"
client_id = "studio"
client_secret = "secret"
server_metadata_url = "https://login.example/.well-known/openid-configuration"
"""


def sent_to_docker() -> list[str]:
    """The files that git knows and that Dockerfile.dockerignore lets into the image."""
    lines = (HOSTING / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = tuple(line[1:] for line in lines if line.startswith("!"))
    return subprocess.run(["git", "ls-files", *let_in], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()


def steps(word: str) -> list[str]:
    """What follows an instruction of the Dockerfile, with lines that go on joined."""
    return re.findall(rf"^{word}\s+(.*)$", DOCKERFILE.replace("\\\n", " "), flags=re.MULTILINE)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A fresh environment into which the Dockerfile's own command installed the files that Docker gets."""
    folder = tmp_path_factory.mktemp("image")
    source = folder / "src"
    for name in sent_to_docker():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    install = next(step for step in steps("RUN") if "pip install" in step)
    path = f"{folder / 'env' / 'bin'}:{os.environ['PATH']}"
    subprocess.run(install.replace("/src", str(source)), shell=True, check=True, env={**os.environ, "PATH": path})
    for each in (*folder.parents, folder):
        if each.owner() == "root" and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o055)
    return folder


def start(installed: Path, home: Path, port: int) -> subprocess.Popen:
    """The Dockerfile's CMD as its user, with its environment."""
    command = json.loads(steps("CMD")[-1])
    variables = dict(pair.split("=", 1) for pair in shlex.split(steps("ENV")[0])) | {"SPU_HOME": str(home / "data")}
    variables |= {"PATH": f"{installed / 'env' / 'bin'}:{os.environ['PATH']}", "HOME": str(home)}
    return subprocess.Popen(
        [*command, "--port", str(port)],
        env=variables,
        cwd=home,
        user=USER,
        group=USER,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_image_gets_no_secrets_and_no_tests():
    tops = {name.split("/")[0] for name in sent_to_docker()}

    assert {"spu_core", "pages", "app.py", "pyproject.toml"} <= tops
    assert not tops & {"docs", "tests", ".git", ".github"}


def test_the_image_is_closed_without_a_login_and_healthy_with_one(installed, tmp_path):
    home = installed / "home"
    home.mkdir()
    os.chown(home, USER, USER)
    _, port = free_address()
    closed = start(installed, home, port)
    assert "SPU_REQUIRE_LOGIN is set" in closed.communicate(timeout=120)[1]
    assert closed.returncode == 1

    (home / ".streamlit").mkdir()
    (home / ".streamlit" / "secrets.toml").write_text(SECRETS)
    server = start(installed, home, port)
    try:
        health = f"http://127.0.0.1:{port}/_stcore/health"
        for _ in range(240):
            try:
                assert urllib.request.urlopen(health, timeout=5).status == 200
                break
            except OSError:
                assert server.poll() is None, server.stderr.read()
                time.sleep(0.5)
        else:
            pytest.fail("the server did not become healthy")
        probe = json.loads(re.sub(r"^.*?CMD\s+", "", steps("HEALTHCHECK")[0]))
        probe[0] = str(installed / "env" / "bin" / "python")
        subprocess.run([part.replace(":8501", f":{port}") for part in probe], check=True)
    finally:
        server.terminate()
        server.communicate(timeout=60)
