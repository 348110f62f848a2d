"""Collect everything that a cluster shows or stores, to look for secrets in it."""

from __future__ import annotations

import ast
from pathlib import Path

import httpx

from codelode.cli.data_folder import flower_file

#: Pages of Flower, except those of each worker and each job.
_PAGES = ("/", "/workers", "/tasks", "/broker", "/metrics")
#: The request that the page of jobs sends.
_JOBS = (
    "/tasks/datatable?draw=1&start=0&length=5000&search[value]=&order[0][column]=0"
    "&order[0][dir]=asc&columns[0][data]=name"
)


def collected(cluster, answers):
    """End the cluster; return the environments of its processes, its files, its log, the answers.

    `answers`: exit states and outputs of commands.
    """
    pids = cluster.pids()
    found = {f"{pid} {name}": Path(f"/proc/{pid}/{name}").read_bytes() for pid in pids
             for name in ("environ", "cmdline")}  # fmt: skip
    assert cluster.stop() == 0
    found |= {str(path): path.read_bytes() for path in cluster.data.rglob("*") if path.is_file()}
    found["log"] = (cluster.data.parent / "up.log").read_bytes()
    assert any("appendonly" in name for name in found)  # everything that Redis was sent
    return found | {text: text.encode() for _, text in answers}


class Flower:
    """The Flower pages of a cluster."""

    def __init__(self, cluster):
        line = flower_file(cluster.data).read_text().partition("=")[2].strip()
        login = tuple(ast.literal_eval(line)[0].split(":", 1))
        self._client = httpx.Client(base_url=cluster.facts["flower"], auth=login, trust_env=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._client.close()

    def workers(self):
        """Return the names of the workers that Flower knows."""
        return {one["hostname"] for one in self._json("/workers?json=1")}

    def jobs(self):
        """Return the names of the jobs that Flower knows, by their ids."""
        return {one["uuid"]: one["name"] for one in self._json(_JOBS)}

    def pages(self):
        """Return the text of every page, by path."""
        workers = [f"/worker/{name}" for name in self.workers()]
        paths = (*_PAGES, _JOBS, *workers, *(f"/task/{id}" for id in self.jobs()))
        found = {path: self._client.get(path, timeout=60) for path in paths}
        assert {answer.status_code for answer in found.values()} == {200}
        return {path: answer.text for path, answer in found.items()}

    def _json(self, path):
        return self._client.get(path).raise_for_status().json()["data"]
