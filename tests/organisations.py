"""An organisation of many small repositories on the simulated GitHub, which changes at random."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime

from tests.hosts import GitHub

#: Time of the first push, seconds since the epoch.
_BEGIN = 1_700_000_000


class Organisation(GitHub):
    """The organisation `acme`. Its repositories share their objects, so that thousands are cheap.

    Each push commits a file, which is new or replaces another one.
    """

    def __init__(self, folder, dice, repositories):
        super().__init__()
        self.git, self._dice, self._pushes = folder, dice, 0
        self._objects = folder / "objects.git"
        self._heads = {}  # id: commit
        subprocess.run(["git", "init", "-q", "--bare", self._objects], check=True)
        self.repositories = {}
        self.create(repositories)

    def is_read_by(self, authorization):
        return authorization is not None

    def create(self, number):
        """Create repositories with one commit each."""
        first = max(self.repositories, default=0) + 1
        ids = range(first, first + number)
        for id in ids:
            self.repositories[id] = (f"r{id}", "PRIVATE", [])
            self._make(self._folder(id))
        self.push(ids)

    def push(self, ids):
        """Push a commit to each of the repositories."""
        lines, marks = [], {}
        for id in ids:
            self._pushes += 1
            marks[self._pushes] = id
            lines += self._commit(id, self._pushes)
        importing = ["git", "-C", self._objects, "fast-import", "--quiet", "--force"]
        marked = self.git / "marks"
        given = [*importing, f"--export-marks={marked}"]
        subprocess.run(given, input="".join(lines).encode(), check=True)
        for line in marked.read_text().splitlines():
            mark, commit = line.removeprefix(":").split()
            id = marks[int(mark)]
            self._heads[id] = commit
            head = self._folder(id) / "refs" / "heads" / "main"
            beside = self._folder(id) / "head"  # no pull sees an empty ref
            beside.write_text(f"{commit}\n")
            beside.replace(head)
            at = datetime.fromtimestamp(_BEGIN + int(mark), UTC)
            self.details[id] = {"pushed_at": at.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def rename(self, id):
        before = self._folder(id)
        self.repositories[id] = (f"{self.repositories[id][0]}x", "PRIVATE", [])
        before.rename(self._folder(id))

    def delete(self, id):
        shutil.rmtree(self._folder(id))
        del self.repositories[id], self._heads[id]

    def change(self, *, pushed, renamed=1, deleted=1, created=0):
        """Push to some repositories, rename some of them, delete some of all, and create some."""
        ids = self._dice.sample(sorted(self.repositories), pushed)
        self.push(ids)
        for id in ids[:renamed]:
            self.rename(id)
        for id in self._dice.sample(sorted(self.repositories), deleted):
            self.delete(id)
        if created:
            self.create(created)

    def commits(self):
        """Return the commit of each repository, by its name."""
        return {f"acme/{name}": self._heads[id] for id, (name, *_) in self.repositories.items()}

    def _folder(self, id):
        return self.git / "acme" / f"{self.repositories[id][0]}.git"

    def _make(self, folder):
        """Write the files of a bare repository, which is faster than `git init`."""
        (folder / "refs" / "heads").mkdir(parents=True)
        (folder / "objects" / "info").mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        objects = self._objects / "objects"
        (folder / "objects" / "info" / "alternates").write_text(f"{objects}\n")

    def _commit(self, id, number):
        """Return the commands for `git fast-import` that make a commit."""
        text = f"def work_{id}_{number}(value):\n    return value + {number}\n"
        parent = self._heads.get(id)
        return [
            f"commit refs/heads/r{id}\nmark :{number}\n",
            f"committer T <t@x> {_BEGIN + number} +0000\ndata 1\nx\n",
            f"from {parent}\n" if parent else "",
            f"M 100644 inline src/f{self._dice.randrange(5)}.py\ndata {len(text)}\n{text}\n",
        ]


def sources(organisation, token_file, *, every="1h", grace="1s"):
    """Return a sources file that follows the organisation."""
    return (
        f"connections:\n- name: work\n  kind: github\n  url: {organisation.url}\n"
        f"  organisation: acme\n  token: {{file: {token_file}}}\n"
        f"  repositories: {{every: {every}, grace: {grace}}}\n"
    )


def indexed(client):
    """Return the indexed commit of each repository, by its name."""
    return {
        one.repository.name: one.refs[0].indexed if one.refs else None
        for one in client.repositories()
    }
