"""Certificates for tests, made anew each time by the program openssl."""

import shutil
import subprocess
from pathlib import Path

import pytest

_CONFIG = """
[ca]
default_ca = authority
[authority]
database = {folder}/{ca}.index
serial = {folder}/{ca}.serial
new_certs_dir = {folder}
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
"""


class Authority:
    """An authority in a folder of its own.

    Attributes:
        certificate: path of its certificate.
    """

    def __init__(self, folder: Path, name: str = "ca") -> None:
        if shutil.which("openssl") is None:
            pytest.skip("no openssl to make certificates with")
        self._folder = folder
        self._name = name
        self.certificate = str(folder / f"{name}.pem")
        self._config = folder / f"{name}.conf"
        self._config.write_text(_CONFIG.format(folder=folder, ca=name), encoding="ascii")
        (folder / f"{name}.index").touch()
        (folder / f"{name}.serial").write_text("01\n", encoding="ascii")
        self._run(
            "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN=authority {name}",
            "-days", "2",
        )  # fmt: skip

    def issue(
        self,
        name: str,
        *roles: str,
        file: str = "",
        start: str = "",
        end: str = "",
        usage: str = "",
    ) -> tuple[str, str, str]:
        """Make a certificate; return the paths of the authority's, of it, and of its key.

        Args:
            name: its common name.
            roles: that it says by itself, and its name among its alternative names then: clients
                look there alone where there are any.
            file: what its files are named by, if not by that.
            usage: what it may be shown for, such as `clientAuth`; empty: for anything.
            start, end: its time, as `YYYYMMDDHHMMSSZ`; by default from now on, for a day.
        """
        file = file or name
        self._run(
            "req", "-new", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-keyout", f"{file}.key", "-out", f"{file}.csr", "-subj", f"/CN={name}",
        )  # fmt: skip
        lines = [f"extendedKeyUsage = {usage}\n"] if usage else []
        if roles:
            names = ",".join([f"DNS:{name}", *(f"URI:raftbatch://role/{role}" for role in roles)])
            lines.append(f"subjectAltName = {names}\n")
        path = self._folder / f"{file}.ext"
        path.write_text("".join(lines), encoding="ascii")
        extensions = ["-extfile", path.name] if lines else []
        time = ["-startdate", start, "-enddate", end] if start else ["-days", "1"]
        self._run(
            "ca", "-batch", "-notext", "-config", str(self._config), "-cert", self.certificate,
            "-keyfile", f"{self._name}.key", "-in", f"{file}.csr", "-out", f"{file}.pem", *time,
            *extensions,
        )  # fmt: skip
        return (
            self.certificate,
            str(self._folder / f"{file}.pem"),
            str(self._folder / f"{file}.key"),
        )

    def _run(self, *arguments: str) -> None:
        subprocess.run(
            ["openssl", *arguments], cwd=self._folder, check=True, timeout=60, capture_output=True
        )
