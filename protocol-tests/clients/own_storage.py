"""`kafka-storage` under the program's own hand, beside Kafka's: output, complaints, exit statuses, and what is in the directories then."""

import re
import shutil
import subprocess

from .own_tools import differing, expect_none, plain
from .suite import test

COMMON = """node.id=3
process.roles=broker,controller
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://localhost:31092,CONTROLLER://localhost:31093
advertised.listeners=PLAINTEXT://localhost:31092
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={d}/a,{d}/b,{d}/c
metadata.log.dir={d}/b
"""
CONFIGS = {
    "fixed": COMMON + "controller.quorum.voters=3@localhost:31093\n",
    "dynamic": COMMON + "controller.quorum.bootstrap.servers=localhost:31093\n",
}
TWO = "3@h:2:JEXY6aqzQY-32P5TStzaFg,4@i:2:MvDxzVmcRsaTz33bUuRU6A"

# Each on what the ones before have left.
IN_A_ROW = f"""
kafka-storage
kafka-storage --help
kafka-storage nonesuch
kafka-storage format
kafka-storage format -c
kafka-storage format -t x
kafka-storage info
kafka-storage info -c {{d}}/nonesuch
kafka-storage format -c {{d}}/nonesuch -t x
kafka-storage info -c {{f}}
kafka-storage format -c {{f}} -t x
kafka-storage info -c {{f}}
kafka-storage format -c {{f}} -t x
kafka-storage format -c {{f}} -t x -g
kafka-storage format -c {{f}} -t y -g
kafka-storage format -c {{f}} -t x -s
kafka-storage format -c {{f}} -t x -I {TWO}
kafka-storage version-mapping
kafka-storage version-mapping -r 4.0
kafka-storage version-mapping --release-version 3.3-IV3
kafka-storage version-mapping --release-version 4.4
kafka-storage version-mapping --release-version 9.9
kafka-storage feature-dependencies
kafka-storage feature-dependencies -f eligible.leader.replicas.version=1 -f metadata.version=25 -f group.version=1
kafka-storage feature-dependencies --feature nonesuch=1
kafka-storage feature-dependencies --feature x
kafka-storage feature-dependencies --feature group.version=x
kafka-storage feature-dependencies --feature group.version=9
kafka-storage feature-dependencies --feature metadata.version=99
kafka-storage random-uuid x
"""

# Each on directories that do not exist.
FIXED = """
-r 4.0
-r 3.9
-r 3.3-IV3
-r 9.9
-r 4.4
-N
-f metadata.version=25
-f metadata.version=31
-f metadata.version=99
-f metadata.version=25 -r 4.0
-f x=1
-f x
-f x=y
-f group.version=0 -f transaction.version=0
-f group.version=9
-r 3.9 -f eligible.leader.replicas.version=1
-f kraft.version=1
-f kraft.version=0
-S SCRAM-SHA-256=[name=alice,salt="c2FsdA==",password=secret]
-S SCRAM-SHA-512=[name=b,salt=c2FsdA==,saltedpassword=YQ==,iterations=8192] -S SCRAM-SHA-256=[name=b,salt=c2FsdA==,password=p]
-S x
-S SCRAM-SHA-256=[name=a]
-S SCRAM-SHA-256=[name=a,password=b,iterations=1]
-S SCRAM-SHA-256=[name=a,password=b] -r 3.4
"""
DYNAMIC = f"""
-r 4.3
-s
-N
-s -N
-s -f kraft.version=0
-s -f kraft.version=1 -r 3.9
-s -f kraft.version=2
-I {TWO}
-I {TWO} -s
-I {TWO},{TWO}
-I 4@i:2:MvDxzVmcRsaTz33bUuRU6A
-I 3@[::1]:2:JEXY6aqzQY-32P5TStzaFg
-I x
"""


def contents(run, folder):
    """What is in each file but times, sums over them, and ids that are made up."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "server.properties"):
        if path.name == "meta.properties":
            text = "\n".join(sorted(line for line in path.read_text().splitlines() if not line.startswith("#")))  # a map of Java's has any order
        elif path.suffix == ".checkpoint":
            text = run.tools("kafka-dump-log", "--cluster-metadata-decoder", "--files", path)
            text = re.sub(r"(CreateTime|lastContainedLogTimestamp|crc)(\"?: ?)-?\d+", r"\1\2…", text)
            # Voters come by the lot of the JVM; the ids of their directories are compared by the size of all.
            text = re.sub(r'"voters":\[(.*)\]\}', lambda found: "".join(sorted(re.sub(r'DirectoryId":"[\w-]{22}', "", found[1]))), text)
        else:
            text = str(path.stat().st_size)
        found[str(path.relative_to(folder))] = re.sub(r"directory\.id=\S+", "directory.id=…", text)
    return found


def compare(run, rows):
    """`rows` are (kind of quorum, whether the directories are to be fresh, words)."""
    folder, binary = run.folder / "d", run.session.broker().binary
    differences = []
    for kind, fresh, words in rows:
        outcomes = {}
        for side in ("ottlas", "kafkas"):
            # Both in the same place: what comes first depends on the hash of a path.
            kept = run.folder / side
            if kept.exists():
                kept.rename(folder)
            if fresh:
                shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(exist_ok=True)
            properties = folder / "server.properties"
            properties.write_text(CONFIGS[kind].replace("{d}", str(folder)))
            line = [word.replace("{f}", str(properties)).replace("{d}", str(folder)) for word in words]
            if side == "kafkas":
                status, out, errors = run.tools.output(line[0], line[1:], "", 90, fresh=False)
            else:
                done = subprocess.run([binary, *line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
                status, out, errors = done.returncode, done.stdout, done.stderr
            out, errors = (re.sub(r"directory\.id=[\w-]{22}", "directory.id=…", plain(text, "{t}", folder)) for text in (out, errors))
            outcomes[side] = {"status": status, "output": out, "errors": errors, **contents(run, folder)}
            folder.rename(kept)
        differences += differing(" ".join(words), *outcomes.values())
    expect_none(differences)


def formats(kind, lines):
    return [(kind, True, ["kafka-storage", "format", "-c", "{f}", "-t", "x", *line.split()]) for line in filter(None, lines.splitlines())]


@test(ottla_only=True)
def storage(run):
    compare(run, [("fixed", False, line.split()) for line in filter(None, IN_A_ROW.splitlines())])


@test(ottla_only=True)
def formatted(run):
    compare(run, [*formats("fixed", FIXED), *formats("dynamic", DYNAMIC)])
